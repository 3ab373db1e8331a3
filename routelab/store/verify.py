"""Is a store what it says it is? What can be checked again without the model.

Each check says what was measured and what was allowed; a damaged file is a failed check that names
it, never an exception.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from routelab.records import Check, Refusal, RouterSpec
from routelab.store.layout import METADATA, layer_folder
from routelab.store.reader import CaptureStore, open_store
from routelab.store.shards import Sharding, damaged_chunks, read_sharding

WEIGHT_SUM = 1e-4
"""Largest deviation of a sum of recomputed float32 weights from 1."""
HALF_SUM = 1e-2
"""The same for weights that are stored as float16: a thousand roundings of 2⁻¹¹ each, relative."""
PROFILE = {"float32": 2e-3}
"""Largest deviation of a profile from the full routing, by the dtype that the model ran in."""
HALF_PROFILE = 2e-2
RELATIVE = 1e-4
"""Largest deviation of a sum over images from the table that it sums, relative."""


def verify_store(store: CaptureStore | str | Path) -> tuple[Check, ...]:
    """Check what is stored against itself.

    Every image once; every file whole, by its checksums; and in each layer: weights sum to 1, the
    profiles are those of the full routing, the sums over images are those of the tables. Reads each
    file once, a shard at a time.

    Raises
    ------
    Refusal
        There is no store at the path.
    """
    if not isinstance(store, CaptureStore):
        store = open_store(store)
    checks = [
        _caught("every image once", _images_once, store),
        _caught("every file whole", _files_whole, store),
    ]
    for spec in store.layers:
        checks.extend(_layer(store, spec))
    return tuple(checks)


def _caught(name: str, check: Callable[..., Check], *arguments: object) -> Check:
    """A check; where a file cannot be read, a failed one with the reason."""
    try:
        return check(name, *arguments)
    except Refusal as refusal:
        return Check(name=name, passed=False, detail=str(refusal))


def _images_once(name: str, store: CaptureStore) -> Check:
    """Committed images are as many as the data has, and their ids differ."""
    expected, distinct = store.card.data.images, len(set(store.ids))
    return Check(
        name=name,
        passed=store.committed == expected == distinct and store.card.complete,
        value=float(distinct),
        limit=float(expected),
        detail=f"{distinct} distinct ids, {store.committed} of {expected} images committed",
    )


def _files_whole(name: str, store: CaptureStore) -> Check:
    """Checksums of all chunks that hold committed rows."""
    wrong: list[str] = []
    for folder, sharding in _arrays(store):
        committed = min(store.committed, sharding.rows)
        for shard in range(-(-committed // sharding.shard)):
            file = sharding.file(folder, shard)
            wrong += [f"{file}: chunk {chunk}" for chunk in damaged_chunks(file, sharding)]
    for spec in store.layers:
        store.totals(spec.key)
    store.lineage()
    detail = f"damaged: {wrong[0]}" if wrong else ""
    return Check(name=name, passed=not wrong, value=float(len(wrong)), limit=0.0, detail=detail)


def _arrays(store: CaptureStore) -> Iterator[tuple[Path, Sharding]]:
    """Every array of rows, the ids excepted."""
    folders = [store.path / "images", *(layer_folder(store.path, s.key) for s in store.layers)]
    for folder in folders:
        for metadata in sorted(folder.glob(f"*/{METADATA}")):
            if metadata.parent.name != "id":
                yield metadata.parent, read_sharding(metadata.parent)


def _layer(store: CaptureStore, spec: RouterSpec) -> list[Check]:
    """What can be checked of one layer at the store's level."""
    checks = []
    if store.full:
        if spec.soft:
            rows, columns = f"combine rows sum to 1, {spec.key}", f"dispatch columns, {spec.key}"
            checks.append(_caught(rows, _sums_to_one, store, spec, store.combine, 2))
            checks.append(_caught(columns, _sums_to_one, store, spec, store.dispatch, 1))
        else:
            checks.append(_caught(f"choices in range, {spec.key}", _in_range, store, spec))
        agreement = f"profile is that of the full routing, {spec.key}"
        checks.append(_caught(agreement, _profile_agrees, store, spec))
    if "profile" in store.tables(spec.key):
        checks.append(
            _caught(f"sums are those of the tables, {spec.key}", _sums_agree, store, spec)
        )
    return checks


def _blocks(store: CaptureStore) -> Iterator[slice]:
    """The full images, a shard at a time."""
    step = store.card.capture.shard
    for start in range(0, store.full, step):
        yield slice(start, min(start + step, store.full))


def _sums_to_one(
    name: str,
    store: CaptureStore,
    spec: RouterSpec,
    weights: Callable[[str, slice], NDArray[np.float32]],
    axis: int,
) -> Check:
    """Largest deviation from 1 of the weights' sums along an axis."""
    worst = max(
        float(np.abs(weights(spec.key, block).sum(axis=axis, dtype=np.float64) - 1).max())
        for block in _blocks(store)
    )
    limit = HALF_SUM if spec.recipe is None else WEIGHT_SUM
    return Check(name=name, passed=worst <= limit, value=worst, limit=limit)


def _in_range(name: str, store: CaptureStore, spec: RouterSpec) -> Check:
    """Experts exist, places are within the capacity, and rows of probs sum to 1."""
    wrong, worst = 0, 0.0
    for block in _blocks(store):
        chosen = store.choices(spec.key, block)
        wrong += int((chosen["expert"] >= spec.experts).sum())
        if spec.capacity is not None:
            wrong += int((chosen["slot"] >= spec.capacity).sum())
        total = chosen["probs"].sum(axis=2, dtype=np.float64)
        worst = max(worst, float(np.abs(total - 1).max()))
    passed = wrong == 0 and worst <= HALF_SUM
    detail = f"{wrong} choices out of range" if wrong else ""
    return Check(name=name, passed=passed, value=worst, limit=HALF_SUM, detail=detail)


def _profile_agrees(name: str, store: CaptureStore, spec: RouterSpec) -> Check:
    """Largest difference between the stored profile and the one of the full routing."""
    worst = 0.0
    for block in _blocks(store):
        patches = store.mass(spec.key, block)[:, spec.prefix :]
        stored = store.table(spec.key, "profile", block)
        difference = np.abs(patches.mean(axis=1, dtype=np.float64) - stored)
        worst = max(worst, float(difference.max()))
    limit = PROFILE.get(store.card.capture.dtype, HALF_PROFILE)
    return Check(name=name, passed=worst <= limit, value=worst, limit=limit)


def _sums_agree(name: str, store: CaptureStore, spec: RouterSpec) -> Check:
    """Class × expert mass and load against the tables that they sum."""
    there = store.totals(spec.key)
    worst = 0.0
    if "class_mass" in there:
        stored = store.total(spec.key, "class_mass")
        labelled = store.labels >= 0
        expected = np.zeros_like(stored)
        np.add.at(expected, store.labels[labelled], store.profile(spec.key)[labelled])
        worst = max(worst, _relative(stored, expected))
    if "load" in there:
        hits = store.table(spec.key, "hits").sum(axis=0, dtype=np.float64)
        worst = max(worst, _relative(store.total(spec.key, "load"), hits))
    return Check(name=name, passed=worst <= RELATIVE, value=worst, limit=RELATIVE)


def _relative(stored: NDArray[np.float64], expected: NDArray[np.float64]) -> float:
    """Largest difference, relative to the largest expected value."""
    largest = float(np.abs(expected).max(initial=0)) or 1.0
    return float(np.abs(stored - expected).max(initial=0)) / largest
