"""What do the first batches say: which arrays come, which layers fail, how long does it take?

Runs before anything is written. Plain and recorded passes alternate on up to three batches, so that
the same numbers give the time of the whole capture and the overhead of recording.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from routelab.capture.assembly import NOT_A_NUMBER
from routelab.capture.certificate import recipe_error
from routelab.capture.forward import Forward, record_batch
from routelab.capture.pipeline import Address, Field
from routelab.capture.recording import Detail, field_of
from routelab.capture.taps import Sight, Taps
from routelab.models import SoftWeights
from routelab.records import Refusal, RouterSpec

BATCHES = 3
"""Batches that are timed."""

RECIPE_LIMIT = 1e-4
"""Largest difference from the layer's own weights at which they may be recomputed from logits."""


@dataclass(frozen=True)
class Probe:
    """What the first batches have shown.

    Attributes
    ----------
    specs
        Layers that can be captured; `recipe` is None where weights cannot be made from logits.
    refused
        Layers that cannot, by key, and why.
    layout
        Every array of a batch, at the level of detail that was asked for.
    plain_seconds, recorded_seconds
        Time of the timed batches without and with recording.
    batches
        How many were timed.
    """

    specs: tuple[RouterSpec, ...]
    refused: dict[str, str]
    layout: dict[Address, Field]
    plain_seconds: float
    recorded_seconds: float
    batches: int

    @property
    def seconds_per_batch(self) -> float:
        """Time of one recorded batch."""
        return self.recorded_seconds / self.batches

    @property
    def overhead(self) -> float:
        """Recorded over plain time, minus 1; writing to disk not included."""
        return self.recorded_seconds / self.plain_seconds - 1


@dataclass
class _FirstLook:
    """Sees the first batch of every layer and sorts the layers."""

    specs: list[RouterSpec] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)

    def observe(self, sight: Sight) -> None:
        spec, routing = sight.spec, sight.routing
        if not all(
            torch.isfinite(values).all() for values in routing if values.is_floating_point()
        ):
            self.refused[spec.key] = NOT_A_NUMBER
            return
        if isinstance(routing, SoftWeights) and recipe_error(routing, spec) > RECIPE_LIMIT:
            spec = spec.model_copy(update={"recipe": None})
        self.specs.append(spec)


def probe(
    forward: Forward,
    specs: Sequence[RouterSpec],
    detail: Detail,
    batches: Sequence[tuple[Tensor, Tensor]],
) -> Probe:
    """Look at and time the first batches.

    Parameters
    ----------
    forward
        The model.
    specs
        Layers that were asked for.
    detail
        Level of detail that was asked for.
    batches
        Pixels and labels on the device, one to `BATCHES` batches.

    Raises
    ------
    Refusal
        If a layer does not run once, or no layer is left.
    """
    look = _FirstLook()
    with Taps(forward.layers, specs, look.observe) as taps:
        forward(batches[0][0])
        taps.check()
    if not look.specs:
        key, reason = next(iter(look.refused.items()))
        raise Refusal(f"no layer can be captured: layer {key} was refused because {reason}")
    layout = _layout(forward, look.specs, detail, *batches[0])
    plain, recorded = _timed(forward, look.specs, detail, batches)
    return Probe(tuple(look.specs), look.refused, layout, plain, recorded, len(batches))


def _layout(
    forward: Forward,
    specs: Sequence[RouterSpec],
    detail: Detail,
    pixels: Tensor,
    labels: Tensor,
) -> dict[Address, Field]:
    """Every array of the first batch, recorded in full where the level of detail is full."""
    layout: dict[Address, Field] = {}

    def keep(items: Iterable[tuple[Address, Tensor]]) -> None:
        layout.update({address: field_of(address, tensor) for address, tensor in items})

    rows = len(pixels) if detail.level == "full" else 0
    record_batch(forward, specs, detail, pixels, labels, full_rows=rows, keep=keep)
    return layout


def _timed(
    forward: Forward,
    specs: Sequence[RouterSpec],
    detail: Detail,
    batches: Sequence[tuple[Tensor, Tensor]],
) -> tuple[float, float]:
    """Seconds of all batches without and with recording."""

    def drop(items: Iterable[tuple[Address, Tensor]]) -> None:
        for _ in items:
            pass

    plain = recorded = 0.0
    for pixels, labels in batches:
        rows = len(pixels) if detail.level == "full" else 0
        began = time.perf_counter()
        forward(pixels)
        forward.machine.synchronize()
        middle = time.perf_counter()
        record_batch(forward, specs, detail, pixels, labels, full_rows=rows, keep=drop)
        forward.machine.synchronize()
        plain += middle - began
        recorded += time.perf_counter() - middle
    return plain, recorded
