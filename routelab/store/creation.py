"""How does an empty store come into being, in one step, without losing what stood in its place?"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from routelab.records import Refusal, StoreCard
from routelab.store.columns import GrowingArray
from routelab.store.files import sync_folder, sync_tree
from routelab.store.layout import (
    LINEAGE,
    Column,
    create_rows,
    cut,
    is_store,
    layer_folder,
    write_array,
    write_card,
    write_group,
    write_ids,
)
from routelab.store.lock import WriterLock
from routelab.store.sums import RunningSums, Shapes

Columns = Mapping[str, Mapping[str, Column]]

PER_IMAGE = "image"
FULL_IMAGE = "full_image"
"""Names of the first axis: every image, or the images with full routing."""

THUMBNAIL = "thumbnail"
"""The one array of `images/` that is kept for the full images only."""


@dataclass(frozen=True)
class Plan:
    """All arrays of a store, before the first image.

    `tables` and `full` are by layer key and name, `image_columns` by name (`thumbnail` is kept for
    the full images only); `sums` and `batch_rows` give the shapes of the running totals. `lineage`
    holds the indices of a recycled model's origin, by name.
    """

    images: int
    ids: Sequence[str]
    labels: NDArray[np.int64]
    tables: Columns = field(default_factory=dict)
    full: Columns = field(default_factory=dict)
    image_columns: Mapping[str, Column] = field(default_factory=dict)
    sums: Shapes = field(default_factory=dict)
    batch_rows: Shapes = field(default_factory=dict)
    lineage: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.images < 1:
            raise Refusal("there is no image to capture; give a folder with images")
        if not self.images == len(self.ids) == len(self.labels):
            raise ValueError(
                f"{self.images} images, {len(self.ids)} ids and {len(self.labels)} labels differ"
            )
        if len(set(self.ids)) != self.images:
            [(twice, times)] = Counter(self.ids).most_common(1)
            raise Refusal(f"the image id {twice!r} stands for {times} images; ids must differ")


def create(path: Path, card: StoreCard, plan: Plan, *, overwrite: bool) -> None:
    """Make an empty store at `path`: whole, or not at all.

    It is built beside its place and takes it by a rename; with `overwrite`, the old store is
    removed after that.

    Raises
    ------
    Refusal
        Something is at `path` and `overwrite` is False, or it is not a RouteLab store.
    """
    _check_place(path, overwrite=overwrite)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        _build(fresh, card, plan)
        sync_tree(fresh)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    _swap(fresh, path)


def _check_place(path: Path, *, overwrite: bool) -> None:
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    if not overwrite:
        raise Refusal(
            f"{path} exists; continue it with --resume, replace it with --overwrite, "
            "or give another --out"
        )
    if not is_store(path):
        raise Refusal(
            f"{path} is not a RouteLab store, so --overwrite will not remove it; give another --out"
        )
    WriterLock(path).release()  # refuses while a capture is writing there


def _swap(fresh: Path, path: Path) -> None:
    """Put the new store in place; what stood there is removed last."""
    old = path.with_name(f".{path.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if path.exists():
        path.rename(old)
    fresh.rename(path)
    sync_folder(path.parent)
    shutil.rmtree(old, ignore_errors=True)


def _build(path: Path, card: StoreCard, plan: Plan) -> None:
    """All metadata, the ids and labels, and sums of zero."""
    path.mkdir()
    for group in ("images", "layers", "results"):
        write_group(path / group, {})
    for spec in card.layers:
        write_group(layer_folder(path, spec.key), {"router": spec.model_dump(mode="json")})
    _create_arrays(path, card, plan)
    write_ids(path / "images" / "id", plan.ids)
    _write_labels(path / "images" / "label", plan)
    if plan.lineage:
        write_group(path / LINEAGE, {})
        for name, indices in plan.lineage.items():
            write_array(path / LINEAGE / name, np.asarray(indices).astype(np.int32))
    RunningSums(plan.sums, plan.batch_rows).save(path, 0)
    write_card(path, card)


def _create_arrays(path: Path, card: StoreCard, plan: Plan) -> None:
    """Metadata of every array that batches bring rows for."""
    tables = [(path / "images" / name, column) for name, column in plan.image_columns.items()]
    tables += _placed(path, plan.tables)
    limited = [place for place in tables if place[0].name == THUMBNAIL]
    for folder, column in tables:
        if folder.name != THUMBNAIL:
            create_rows(folder, cut(column, plan.images), axis=PER_IMAGE)
    full = min(card.capture.full, plan.images)
    for folder, column in [*limited, *_placed(path, plan.full)]:
        if full > 0:
            create_rows(folder, cut(column, full, shard=card.capture.shard), axis=FULL_IMAGE)


def _placed(path: Path, columns: Columns) -> list[tuple[Path, Column]]:
    """Each array of the layers with its folder."""
    return [
        (layer_folder(path, layer) / name, column)
        for layer, named in columns.items()
        for name, column in named.items()
    ]


def _write_labels(folder: Path, plan: Plan) -> None:
    sharding = cut(Column((), "int32"), plan.images)
    create_rows(folder, sharding, axis=PER_IMAGE)
    labels = GrowingArray(folder, sharding)
    labels.append(np.asarray(plan.labels).astype(np.int32))
    labels.flush()
