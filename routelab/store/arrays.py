"""How are chosen rows of a stored array read without touching the others?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from routelab.records import Refusal
from routelab.store.shards import Sharding, map_shard

Rows = slice | int | NDArray[np.int64] | list[int] | None
"""Which images: a slice, one number, several numbers, or None for all."""


def select_rows(rows: Rows, count: int, name: str) -> NDArray[np.int64]:
    """Row numbers from 0 to `count` − 1; negative numbers count from the end.

    Raises
    ------
    Refusal
        A number is beyond the rows of `name` that are stored.
    """
    everything = np.arange(count)
    if rows is None:
        return everything
    try:
        return everything[[rows]] if isinstance(rows, (int, np.integer)) else everything[rows]
    except IndexError:
        raise Refusal(f"{name} is stored for the first {count} images, not for {rows}") from None


def read_rows(folder: Path, sharding: Sharding, rows: NDArray[np.int64]) -> NDArray[Any]:
    """Rows of one array, in the order asked for, `(len(rows), …)`.

    Raises
    ------
    Refusal
        A shard is missing or damaged.
    """
    out = np.empty((len(rows), *sharding.row_shape), sharding.dtype)
    shards = rows // sharding.shard
    for shard in np.unique(shards):
        mapped = map_shard(sharding.file(folder, int(shard)), sharding)
        places = np.flatnonzero(shards == shard)
        within = rows[places] - shard * sharding.shard
        out[_run(places)] = mapped[_run(within)]
    return out


def _run(numbers: NDArray[np.int64]) -> slice | NDArray[np.int64]:
    """Numbers that follow each other as a slice, which copies several times faster."""
    first, last = int(numbers[0]), int(numbers[-1])
    if last - first + 1 == len(numbers) and (np.diff(numbers) == 1).all():
        return slice(first, last + 1)
    return numbers
