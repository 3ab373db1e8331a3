"""How is a store with a known answer made, without a model and in a second?"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from routelab.records import (
    CaptureCard,
    Certificate,
    Check,
    DataCard,
    ExpertGroup,
    GroupRange,
    ImageRouting,
    Level,
    ModelCard,
    MoESpec,
    RouterConfig,
    RouterSpec,
    SoftRecipe,
    SoftRouting,
    SpheroRouting,
    StoreCard,
    TopKRouting,
    Transform,
)
from routelab.store import FORMAT, Batch, Column, StoreWriter
from routelab.testing.decisions import decide
from routelab.testing.pictures import features, thumbnails
from routelab.testing.scores import SCORES, Scene
from routelab.testing.tables import image_tables, layer_sums

Router = Literal["soft", "sphero", "topk", "image"]

PLANTED: Mapping[str, str] = {
    "healthy": "All experts share the work, and class decides more of the routing in each deeper "
    "layer: consistency rises with depth.",
    "dead_expert": "As `healthy`, but the last expert gets no token in any layer: an empty bar in "
    "the load, an empty column in the class heatmap.",
    "collapsed": "Expert 0 gets every token of every layer: load entropy 0, and a consistency of 1 "
    "that means nothing.",
    "swapped_axes": "Combine and dispatch are swapped: rows of combine do not sum to 1, and every "
    "image has the same, flat profile; `verify` finds both sums wrong.",
    "class_in_one_layer": "Class decides the routing in the middle layer and nowhere else: one "
    "peak in the consistency curve, the other layers at chance.",
    "position": "The place of a patch decides, the image does not: bands in the expert map, high "
    "position information, class information at chance.",
    "uniform": "Nothing decides: every token gives every expert nearly the same, all entropies at "
    "their maximum.",
}
"""Kind of planted store, and what it looks like."""

FIRST_BLOCK = 6
SLOTS = 2
BATCH = 16
SHARD = 64
WIDTH = 16


@dataclass(frozen=True)
class Truth:
    """Everything that decides the bytes of a planted store."""

    kind: str
    router: Router
    level: Level
    images: int
    full: int
    classes: int
    experts: int
    layers: int
    grid: tuple[int, int]
    seed: int


def planted_layer(layers: int = 3) -> str:
    """Key of the one layer of `class_in_one_layer` in which class decides."""
    return f"{FIRST_BLOCK + layers // 2:02d}"


def planted_store(
    path: str | Path,
    kind: str,
    *,
    images: int = 120,
    classes: int = 8,
    experts: int = 4,
    layers: int = 3,
    router: Router = "soft",
    level: Level = "full",
    full: int | None = None,
    grid: tuple[int, int] = (4, 4),
    seed: int = 0,
    overwrite: bool = False,
) -> Path:
    """Write a store in which the answer is known.

    Class c prefers expert c mod E; tokens are one class token and a grid of patches, or one
    decision an image for router "image". Equal arguments give equal bytes.

    Parameters
    ----------
    path
        Where; nothing may be there unless `overwrite`.
    kind
        One of `PLANTED`.
    images, classes, experts, layers
        Sizes; layers are blocks 6, 7, …
    router
        "soft" (two slots an expert), "sphero" (the same with entmax-1.5 combine), "topk" (k = 2,
        with a capacity that drops some tokens) or "image" (one decision an image, k = 1).
    level, full
        Detail; `full` images have full routing (default: all).
    grid
        Height and width in patches.
    seed
        Seed of all randomness.

    Raises
    ------
    ValueError
        The kind is unknown, or makes no sense for the router.
    Refusal
        Something is at `path`.
    """
    if kind not in PLANTED:
        raise ValueError(f"kind {kind!r} is not one of {', '.join(PLANTED)}")
    if kind == "swapped_axes" and router != "soft":
        raise ValueError("swapped_axes is a fault of router 'soft' only")
    with_full = (images if full is None else full) if level == "full" else 0
    truth = Truth(kind, router, level, images, with_full, classes, experts, layers, grid, seed)
    return _write(Path(path), truth, overwrite=overwrite)


def _write(path: Path, truth: Truth, *, overwrite: bool) -> Path:
    rng = np.random.default_rng([truth.seed, 0])
    labels = rng.permutation(np.arange(truth.images) % truth.classes)
    ids = [f"class {label}/image {number:04d}.png" for number, label in enumerate(labels)]
    card = _card(truth, ids, labels)
    first = _batch(truth, card, labels, 0)
    with StoreWriter.create(
        path,
        card,
        images=truth.images,
        ids=ids,
        labels=labels,
        tables=_columns(first.tables),
        full=_columns(first.full),
        image_columns=_columns({"": first.images})[""],
        sums=_shapes(first.sums),
        batch_rows=_shapes(first.batch_rows),
        overwrite=overwrite,
    ) as writer:
        writer.append(first)
        for start in range(BATCH, truth.images, BATCH):
            writer.append(_batch(truth, card, labels, start))
        writer.finish(_certificate(truth), timing={})
    return path


def _batch(truth: Truth, card: StoreCard, labels: NDArray[np.int64], start: int) -> Batch:
    """Everything about images `start` to `start + BATCH`."""
    rng = np.random.default_rng([truth.seed, 1, start])
    own = labels[start : start + BATCH]
    wrong = rng.random(len(own)) < 0.2
    images: dict[str, NDArray[Any]] = {
        "prediction": np.where(wrong, (own + 1) % truth.classes, own).astype(np.int32),
        "probability": np.where(wrong, 0.2, 0.8).astype(np.float32),
    }
    tables, full, sums, rows = {}, {}, {}, {}
    for number, spec in enumerate(card.layers):
        scene = Scene(own, truth.experts, truth.layers, spec.prefix, spec.grid)
        decision = decide(SCORES[truth.kind](scene, number, rng), spec, rng)
        counted = image_tables(decision, spec)
        sums[spec.key] = layer_sums(decision, counted, own, truth.classes, spec)
        rows[spec.key] = {"batch_load": sums[spec.key]["load"]}
        depth = (number + 1) / truth.layers
        tables[spec.key] = {**_narrow(counted), **features(own, depth, WIDTH, rng)}
        full[spec.key] = decision.stored
    if truth.full:
        images["thumbnail"] = thumbnails(own, truth.classes, rng)
    if truth.level == "totals":
        tables = {}
    return Batch(images, tables, full if truth.full else {}, sums, rows)


def _narrow(tables: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Tables in the dtypes of the store: float32, and int32 counts."""
    return {
        name: table if table.dtype == np.int32 else table.astype(np.float32)
        for name, table in tables.items()
    }


def _columns(
    arrays: Mapping[str, Mapping[str, NDArray[Any]]],
) -> dict[str, dict[str, Column]]:
    return {
        layer: {name: Column(rows.shape[1:], rows.dtype.name) for name, rows in named.items()}
        for layer, named in arrays.items()
    }


def _shapes(
    arrays: Mapping[str, Mapping[str, NDArray[Any]]],
) -> dict[str, dict[str, tuple[int, ...]]]:
    return {
        layer: {name: np.shape(array) for name, array in named.items()}
        for layer, named in arrays.items()
    }


def _card(truth: Truth, ids: list[str], labels: NDArray[np.int64]) -> StoreCard:
    names = tuple(f"class {number}" for number in range(truth.classes))
    router, slots = _router(truth)
    group = ExpertGroup(experts=truth.experts, slots=slots)
    blocks = tuple(range(FIRST_BLOCK, FIRST_BLOCK + truth.layers))
    order = "\n".join(f"{name}\t{label}" for name, label in zip(ids, labels, strict=True))
    return StoreCard(
        format=FORMAT,
        model=ModelCard(
            architecture="planted",
            spec=MoESpec(layers=blocks, router=router, groups=(group,)),
            classes=names,
            transform=Transform(size=4 * max(truth.grid)),
            source=f"routelab.testing.planted_store(kind={truth.kind!r})",
        ),
        data=DataCard(
            source=f"planted: {truth.kind}",
            classes=names,
            images=truth.images,
            sha256=hashlib.sha256(order.encode()).hexdigest(),
        ),
        capture=CaptureCard(
            level=truth.level, full=truth.full, batch_size=BATCH, shard=SHARD, seed=truth.seed
        ),
        layers=tuple(_spec(truth, block, group) for block in blocks),
    )


def _router(truth: Truth) -> tuple[RouterConfig, int]:
    """Configuration of the router, and slots an expert."""
    if truth.router == "soft":
        return SoftRouting(), SLOTS
    if truth.router == "sphero":
        return SpheroRouting(), SLOTS
    if truth.router == "topk":
        return TopKRouting(k=min(2, truth.experts), capacity_factor=1.25), 1
    return ImageRouting(k=1), 1


def _spec(truth: Truth, block: int, group: ExpertGroup) -> RouterSpec:
    patches = truth.grid[0] * truth.grid[1]
    tokens, prefix, grid = (1, 0, None) if truth.router == "image" else (patches + 1, 1, truth.grid)
    choices = {"topk": min(2, truth.experts), "image": 1}.get(truth.router)
    combine: Literal["softmax", "entmax15"] = "entmax15" if truth.router == "sphero" else "softmax"
    stored = truth.kind == "swapped_axes" or choices is not None
    room = -(-5 * tokens * (choices or 0) // (4 * truth.experts))
    return RouterSpec(
        layer=f"blocks.{block}.mlp",
        depth=block,
        kind=truth.router,
        tokens=tokens,
        prefix=prefix,
        grid=grid,
        width=WIDTH,
        groups=(
            GroupRange(
                name=group.name,
                start=0,
                stop=group.experts,
                hidden=group.hidden(WIDTH),
                slots=group.slots,
            ),
        ),
        k=choices,
        capacity=room if truth.router == "topk" and truth.kind != "collapsed" else None,
        recipe=None if stored else SoftRecipe(combine=combine),
    )


def _certificate(truth: Truth) -> Certificate:
    """What a capture would have found."""
    swapped = truth.kind == "swapped_axes"
    sums = Check(
        name="combine rows sum to 1",
        passed=not swapped,
        detail="planted: combine and dispatch are swapped" if swapped else "planted",
    )
    return Certificate(checks=(Check(name="every image once", passed=True, detail="planted"), sums))
