"""Which arrays does one layer leave in the store, at which level of detail?

`record` is the one place that names them. The layout of the ring and of the store is what it yields
for the first batch, so that no second list of names and shapes can disagree with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from routelab.capture.pipeline import Address, Field
from routelab.capture.quantize import quantize
from routelab.capture.reductions import (
    decide,
    image_profiles,
    image_tables,
    layer_sums,
    pool_features,
)
from routelab.capture.taps import Sight
from routelab.models import Routing, SoftWeights
from routelab.records import CaptureCard, Level, RouterSpec

TABLES = "tables"
FULL = "full"
SUMS = "sums"
IMAGES = "images"

FEATURE = torch.float16


@dataclass(frozen=True)
class Detail:
    """How much is recorded; `prefix` tokens of the model's features are class and registers."""

    level: Level
    features: str
    prefix: int
    class_token: bool

    @classmethod
    def of(cls, card: CaptureCard, *, prefix: int, class_token: bool) -> Detail:
        """What a capture card asks for."""
        return cls(card.level, card.features, prefix, class_token)


def record(sight: Sight, detail: Detail, full_rows: int) -> Iterator[tuple[Address, Tensor]]:
    """Everything that is kept of one layer in one batch; its first `full_rows` images in full.

    At level `totals` profile and hits are still yielded, because the sums by class need them; the
    writer drops the rows.
    """
    routing, spec, key = sight.routing, sight.spec, sight.spec.key
    decision = decide(routing, spec)
    for name, sums in layer_sums(decision, routing, spec).items():
        yield Address(SUMS, key, name), sums
    if detail.level == "totals":
        for name, rows in image_profiles(decision).items():
            yield Address(TABLES, key, name), rows
        return
    tables = image_tables(decision, routing, spec) | _features(sight, detail)
    for name, rows in tables.items():
        yield Address(TABLES, key, name), rows
    if full_rows > 0:
        for name, rows in full_routing(routing, spec, full_rows).items():
            yield Address(FULL, key, name), rows
        if detail.features == "tokens":
            yield Address(FULL, key, "tokens"), sight.inputs[:full_rows].to(FEATURE)


def full_routing(routing: Routing, spec: RouterSpec, rows: int | None) -> dict[str, Tensor]:
    """The routing of the first `rows` images (None: all) as it is stored.

    Soft: int16 logits and their scale, or dispatch and combine where no recipe makes them from the
    logits. Sparse: expert, gate, slot and probs.
    """
    if isinstance(routing, SoftWeights):
        if spec.recipe is None:
            dispatch, combine = routing.dispatch[:rows], routing.combine[:rows]
            return {"dispatch": dispatch.to(FEATURE), "combine": combine.to(FEATURE)}
        integers, scale = quantize(routing.logits[:rows])
        return {"logits": integers, "logits_scale": scale}
    return {
        "expert": routing.expert[:rows].to(smallest_unsigned(spec.experts)),
        "gate": routing.gate[:rows].float(),
        "slot": routing.slot[:rows].int(),
        "probs": routing.probs[:rows].to(FEATURE),
    }


def full_names(spec: RouterSpec) -> tuple[str, ...]:
    """Names of the arrays that `full_routing` gives for a layer."""
    if not spec.soft:
        return ("expert", "gate", "slot", "probs")
    return ("dispatch", "combine") if spec.recipe is None else ("logits", "logits_scale")


def smallest_unsigned(experts: int) -> torch.dtype:
    """The smallest unsigned integer that holds expert numbers 0 … `experts` − 1."""
    return torch.uint8 if experts <= 256 else torch.uint16


def field_of(address: Address, tensor: Tensor) -> Field:
    """The place that an array of this kind needs in a slot."""
    rows = address.section != SUMS
    shape = tuple(tensor.shape[1:] if rows else tensor.shape)
    return Field(shape, tensor.dtype, rows)


def _features(sight: Sight, detail: Detail) -> dict[str, Tensor]:
    """Pooled and class-token features of the layer's input and output, float16."""
    if detail.features == "none":
        return {}
    sides = {"": sight.inputs, "_output": sight.outputs}
    features = {f"pooled{end}": pool_features(t, detail.prefix) for end, t in sides.items()}
    if detail.class_token:
        features |= {f"class_token{end}": tokens[:, 0] for end, tokens in sides.items()}
    return {name: tensor.to(FEATURE) for name, tensor in features.items()}
