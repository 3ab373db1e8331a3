"""What will be stored, how large is it, how long will it take, and what must go to fit a budget?"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch

from routelab.capture.pipeline import Address, Field, Layout
from routelab.capture.recording import FULL, IMAGES, SUMS, TABLES
from routelab.records import CaptureCard, Refusal, RouterSpec

SHARD_BYTES = 8 << 20
"""Largest shard of one array that is aimed at; the writer holds one shard of every array."""
SHARD_TOTAL = 256 << 20
SHARD_IMAGES = 1024
TABLE_ROWS = 1024

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


@dataclass(frozen=True)
class PlannedArray:
    """One array of the store: where, shape with the image axis, dtype, bytes and files."""

    layer: str
    section: str
    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    files: int


@dataclass(frozen=True)
class Plan:
    """What a capture will write, and how long it will take."""

    card: CaptureCard
    layers: tuple[RouterSpec, ...]
    images: int
    arrays: tuple[PlannedArray, ...]
    seconds_per_batch: float = math.nan
    left_out: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """Bytes of all arrays; metadata and checksums come to less than a percent on top."""
        return sum(array.bytes for array in self.arrays)

    @property
    def files(self) -> int:
        """Files of all arrays, with their metadata."""
        return sum(array.files for array in self.arrays) + 2 * len(self.layers)

    @property
    def batches(self) -> int:
        """Forward passes in all."""
        return math.ceil(self.images / self.card.batch_size)

    @property
    def seconds(self) -> float:
        """Estimated time of the forward passes, from the timed batches."""
        return self.batches * self.seconds_per_batch

    def to_dict(self) -> dict[str, object]:
        """The plan as JSON has it."""
        return {
            "images": self.images,
            "level": self.card.level,
            "full": self.card.full,
            "features": self.card.features,
            "layers": {
                spec.key: {"path": spec.layer, "router": spec.kind, "experts": spec.experts}
                for spec in self.layers
            },
            "arrays": [vars(array) | {"shape": list(array.shape)} for array in self.arrays],
            "bytes": self.bytes,
            "files": self.files,
            "seconds": None if math.isnan(self.seconds) else round(self.seconds, 1),
            "left_out": list(self.left_out),
            "refused": dict(self.refused),
        }


def plan_capture(
    card: CaptureCard,
    layers: tuple[RouterSpec, ...],
    layout: Layout,
    images: int,
    *,
    classes: int = 0,
) -> Plan:
    """The arrays that a capture by this card will write.

    Parameters
    ----------
    card
        Level, features and number of full images.
    layers
        The layers that are captured.
    layout
        One batch at the highest level of detail, as the probe has seen it.
    images
        Rows in all.
    classes
        Classes that the totals are summed by.
    """
    keys = {spec.key for spec in layers}
    arrays = [
        _planned(address, column, card, images)
        for address, column in layout.items()
        if address.layer in keys | {""} and wanted(address, card)
    ]
    batches = math.ceil(images / card.batch_size)
    for spec in layers:
        arrays += _by_class(spec, classes, batches)
    return Plan(card, layers, images, tuple(arrays))


def wanted(address: Address, card: CaptureCard) -> bool:
    """True if a capture by this card stores the array."""
    if address.section == IMAGES:
        return address.name != "thumbnail" or card.full > 0
    if address.section == SUMS:
        return True
    if card.level == "totals":
        return False
    if address.section == TABLES:
        feature = address.name.startswith(("pooled", "class_token"))
        return card.features != "none" or not feature
    return card.full > 0 and (address.name != "tokens" or card.features == "tokens")


def fit_budget(plan: Plan, layout: Layout, budget: int, *, classes: int = 0) -> Plan:
    """The richest plan within `budget` bytes, and in words what it leaves out.

    Token features go first, then full images, then pooled features, and at last the profiles.

    Raises
    ------
    Refusal
        If not even the totals fit.
    """
    for lighten in (_without_tokens, _with_fewer_full, _without_pooled, _only_totals):
        if plan.bytes <= budget:
            return plan
        update, said = lighten(plan, budget)
        if update:
            card = plan.card.model_copy(update=update)
            smaller = plan_capture(card, plan.layers, layout, plan.images, classes=classes)
            plan = replace(smaller, left_out=(*plan.left_out, said), refused=plan.refused)
    if plan.bytes <= budget:
        return plan
    raise Refusal(
        f"a budget of {readable(budget)} does not hold even the totals, which take "
        f"{readable(plan.bytes)}; give a larger --budget or fewer --layers"
    )


def choose_shard(layout: Layout, batch_size: int) -> int:
    """Images a shard: a multiple of the batch, about 8 MB an array and 256 MB over all arrays."""
    full = [column.bytes for address, column in layout.items() if address.section == FULL]
    images = SHARD_IMAGES
    if full:
        images = min(images, SHARD_BYTES // max(full), SHARD_TOTAL // sum(full))
    return max(images // batch_size, 1) * batch_size


def parse_bytes(text: str) -> int:
    """Bytes in "20GB", "1.5 TB" or "1000000" (decimal units)."""
    match = re.fullmatch(r"\s*([0-9.]+)\s*([KMGT]?)B?\s*", text.upper())
    try:
        return int(float(match[1]) * _UNITS[match[2]]) if match else _bad_bytes(text)
    except ValueError:
        return _bad_bytes(text)


def readable(size: float) -> str:
    """Bytes for a human reader, in decimal units."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


Lighter = tuple[dict[str, object], str]


def _without_tokens(plan: Plan, budget: int) -> Lighter:
    if plan.card.features != "tokens":
        return {}, ""
    return {"features": "pooled"}, "token features"


def _with_fewer_full(plan: Plan, budget: int) -> Lighter:
    full = plan.card.full
    if not full:
        return {}, ""
    each = sum(a.bytes for a in plan.arrays if _limited(a.section, a.name)) // full
    room = budget - (plan.bytes - full * each)
    fitting = max(room // each, 0) // plan.card.batch_size * plan.card.batch_size
    if fitting:
        return {"full": fitting}, f"full routing of {full - fitting} of {full} images"
    return {"full": 0, "level": "profiles"}, f"full routing of all {full} images"


def _without_pooled(plan: Plan, budget: int) -> Lighter:
    if plan.card.features == "none":
        return {}, ""
    return {"features": "none"}, "pooled features"


def _only_totals(plan: Plan, budget: int) -> Lighter:
    if plan.card.level == "totals":
        return {}, ""
    return {"level": "totals", "features": "none"}, "the per-image tables"


def _planned(address: Address, column: Field, card: CaptureCard, images: int) -> PlannedArray:
    """Shape, bytes and files of one array."""
    rows = min(card.full, images) if _limited(address.section, address.name) else images
    shape = (rows, *column.shape) if column.rows else column.shape
    wide = column.dtype if column.rows else torch.float64  # sums are added up in float64
    shard = card.shard if address.section == FULL else TABLE_ROWS
    return PlannedArray(
        layer=address.layer,
        section=address.section,
        name=address.name,
        shape=shape,
        dtype=str(wide).removeprefix("torch."),
        bytes=math.prod(shape) * wide.itemsize,
        files=1 + (math.ceil(rows / shard) if column.rows else 1),
    )


def _limited(section: str, name: str) -> bool:
    """True for an array that only the images with full routing have."""
    return section == FULL or (section, name) == (IMAGES, "thumbnail")


def _by_class(spec: RouterSpec, classes: int, batches: int) -> list[PlannedArray]:
    """The sums that are made on the host: by class, by expert and by batch."""
    shapes = {"load": (spec.experts,), "batch_load": (batches, spec.experts)}
    if classes:
        shapes |= {"class_mass": (classes, spec.experts), "class_count": (classes,)}
    return [
        PlannedArray(spec.key, SUMS, name, shape, "float64", 8 * math.prod(shape), 2)
        for name, shape in shapes.items()
    ]


def _bad_bytes(text: str) -> int:
    raise Refusal(f'"{text}" is not a size; write for example 500MB or 20GB')
