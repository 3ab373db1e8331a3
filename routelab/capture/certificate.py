"""What does a capture prove about itself?

The witnessed batches run twice, with and without hooks. In the second run every layer's *stored*
routing (int16 logits, float16 gates, as a reader will see them) is replayed through the layer's own
experts and compared with what the layer gave. Each check keeps the worst value of all layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from routelab.capture.forward import Forward
from routelab.capture.quantize import STEPS
from routelab.capture.recording import FEATURE, full_routing
from routelab.capture.restore import apply_recipe, restore_routing
from routelab.capture.taps import Sight, Taps
from routelab.models import Routing, SoftWeights
from routelab.records import Check, RouterSpec, StoreCard

StoredArrays = Callable[[RouterSpec, int, int], Mapping[str, Tensor]]
"""(layer, first image, images) → the full arrays of as many of these images as the store holds."""

OUTPUT = "output with hooks equals output without"
STORED = "stored routing is that of a second forward pass"
DISPATCH = "dispatch columns sum to 1"
COMBINE = "combine rows sum to 1"
PROBABILITY = "router probabilities sum to 1"
WEIGHTS = "weights recomputed from stored logits are the layer's own"
LOGITS = "rounding of stored logits"
REPLAY = "replay of stored routing gives the layer's output"
FEATURES = "rounding of stored features"


@dataclass(frozen=True)
class Limits:
    """What each check allows: relative to the largest value, or absolute for weights and sums."""

    sums: float
    weights: float
    replay: float
    stored: float

    @classmethod
    def of(cls, dtype: torch.dtype) -> Limits:
        """Limits for the precision of the forward pass."""
        if dtype == torch.float32:
            return cls(sums=1e-4, weights=2e-3, replay=2e-3, stored=1e-3)
        return cls(sums=5e-2, weights=2e-2, replay=5e-2, stored=5e-2)

    def limit(self, name: str) -> float:
        """The limit of one check."""
        if name in (DISPATCH, COMBINE, PROBABILITY):
            return self.sums
        return {
            OUTPUT: 0.0,
            WEIGHTS: self.weights,
            REPLAY: self.replay,
            STORED: self.stored,
            LOGITS: 0.51 / STEPS,
            FEATURES: 2.0**-10,
        }[name]


@dataclass
class Witness:
    """Runs batches with and without hooks and remembers the largest error of each check.

    Parameters
    ----------
    forward
        The model.
    specs
        The layers that were captured.
    features
        True where features are stored.
    stored
        Reads full routing back from the store; None: the routing is rounded here and now.
    """

    forward: Forward
    specs: Sequence[RouterSpec]
    features: bool = True
    stored: StoredArrays | None = None
    images: int = 0
    _worst: dict[str, tuple[float, str]] = field(default_factory=dict)
    _start: int = 0

    def see(self, pixels: Tensor, start: int) -> None:
        """Run one batch whose first image is number `start`."""
        self._start = start
        plain = self.forward(pixels)
        with Taps(self.forward.layers, self.specs, self._observe) as taps:
            tapped = self.forward(pixels)
            taps.check()
        self._remember(OUTPUT, _distance(tapped, plain, relative=False), "")
        self.images += len(pixels)

    @property
    def device(self) -> torch.device:
        """Where its batches must be."""
        return self.forward.machine.device

    def checks(self) -> tuple[Check, ...]:
        """One line for each thing that was measured, in a fixed order."""
        limits = Limits.of(self.forward.machine.dtype)
        order = [OUTPUT, STORED, DISPATCH, COMBINE, PROBABILITY, WEIGHTS, LOGITS, REPLAY, FEATURES]
        return tuple(self._check(name, limits.limit(name)) for name in order if name in self._worst)

    def _check(self, name: str, limit: float) -> Check:
        value, layer = self._worst[name]
        where = f", worst in layer {layer}" if layer else ""
        return Check(
            name=name,
            passed=value <= limit,
            value=value,
            limit=limit,
            detail=f"{self.images} images{where}",
        )

    def _observe(self, sight: Sight) -> None:
        key = sight.spec.key
        for name, error in _simplex_errors(sight.routing).items():
            self._remember(name, error, key)
        arrays = full_routing(sight.routing, sight.spec, None)
        if self.stored is not None:
            read = self.stored(sight.spec, self._start, len(sight.inputs))
            for name, rows in read.items():
                self._remember(STORED, _distance(rows, arrays[name][: len(rows)]), key)
                arrays[name] = torch.cat([rows, arrays[name][len(rows) :]])
        kept = restore_routing(arrays, sight.spec)
        for name, error in _rounding_errors(sight, kept).items():
            self._remember(name, error, key)
        if self.features:
            self._remember(FEATURES, _distance(sight.inputs.to(FEATURE), sight.inputs), key)
        with self.forward.machine.precision():
            replayed = sight.layer.replay(sight.inputs, kept)
        self._remember(REPLAY, _distance(replayed, sight.outputs), key)

    def _remember(self, name: str, error: float, layer: str) -> None:
        """Keep the larger of two errors; one that is not a number is the largest of all."""
        error = math.inf if math.isnan(error) else error
        if name not in self._worst or error > self._worst[name][0]:
            self._worst[name] = (error, layer)


def completeness(card: StoreCard, asked: Sequence[str], images: int) -> tuple[Check, ...]:
    """Every layer that was asked for is stored or was refused, and every image is stored once."""
    stored = [spec.key for spec in card.layers]
    left_out = "".join(f"; {key} left out: {why}" for key, why in sorted(card.refused.items()))
    return (
        Check(
            name="every layer was seen in every batch",
            passed=sorted([*stored, *card.refused]) == sorted(asked),
            value=float(len(stored)),
            limit=float(len(asked)),
            detail=f"layers {', '.join(stored)}{left_out}",
        ),
        Check(
            name="every image is stored once",
            passed=card.committed == images,
            value=float(card.committed),
            limit=float(images),
        ),
    )


def recipe_error(routing: SoftWeights, spec: RouterSpec) -> float:
    """Largest difference between a layer's weights and those made of its logits by its recipe."""
    if spec.recipe is None:
        return 0.0
    pairs = zip(apply_recipe(routing.logits.float(), spec.recipe), routing[:2], strict=True)
    return max(_distance(made, own, relative=False) for made, own in pairs)


def _simplex_errors(routing: Routing) -> dict[str, float]:
    """How far the weights that should sum to 1 are from it."""
    if isinstance(routing, SoftWeights):
        return {
            DISPATCH: _sum_error(routing.dispatch, dim=1),
            COMBINE: _sum_error(routing.combine, dim=2),
        }
    return {PROBABILITY: _sum_error(routing.probs, dim=2)}


def _rounding_errors(sight: Sight, kept: Routing) -> dict[str, float]:
    """What storing soft routing changes in its logits (relative) and in its weights (absolute)."""
    own = sight.routing
    if not isinstance(own, SoftWeights) or not isinstance(kept, SoftWeights):
        return {}
    weights = zip(kept[:2], own[:2], strict=True)
    errors = {WEIGHTS: max(_distance(now, was, relative=False) for now, was in weights)}
    if sight.spec.recipe is not None:
        errors[LOGITS] = _distance(kept.logits, own.logits)
    return errors


def _sum_error(weights: Tensor, dim: int) -> float:
    return float((weights.float().sum(dim=dim) - 1).abs().max())


def _distance(found: Tensor, expected: Tensor, *, relative: bool = True) -> float:
    """Largest absolute difference, over the image's largest absolute value where relative.

    Two values that are both NaN are equal; one alone is infinitely far.
    """
    if not len(found):
        return 0.0
    found, expected = found.float(), expected.float()
    apart = (found - expected).abs()
    apart[(found == expected) | (found.isnan() & expected.isnan())] = 0
    difference = apart.reshape(len(found), -1).amax(dim=1)
    if relative:
        size = expected.abs().reshape(len(found), -1).amax(dim=1)
        difference = difference / size.clamp(min=torch.finfo(torch.float32).tiny)
    return float(difference.max())
