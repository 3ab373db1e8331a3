"""How do layers with different numbers of experts share one labelled array?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from routelab.store import CaptureStore

FloatArray = NDArray[np.float64]


def stack(rows: Sequence[ArrayLike]) -> FloatArray:
    """Stack arrays of equal rank, each padded with NaN at the end of its axes to the largest.

    Shapes `[(a_1, b_1), (a_2, b_2), ...]` become `(rows, max a, max b)`; scalars become a vector.
    """
    arrays = [np.asarray(row, dtype=np.float64) for row in rows]
    if not arrays:
        return np.zeros(0)
    shape = tuple(np.max([array.shape for array in arrays], axis=0).astype(int))
    stacked = np.full((len(arrays), *shape), np.nan)
    for place, array in enumerate(arrays):
        if array.ndim == 0:
            stacked[place] = array
        else:
            stacked[place][tuple(slice(0, size) for size in array.shape)] = array
    return stacked


def layer_names(store: CaptureStore) -> list[str]:
    """Keys of the layers in depth order, the labels of the `layer` axis."""
    return [spec.key for spec in store.layers]


def class_names(store: CaptureStore) -> list[str]:
    """Labels of the `class` axis: the data's class names, or numbers where it has none."""
    return list(store.classes) or [str(c) for c in range(class_count(store))]


def class_count(store: CaptureStore) -> int:
    """C: the classes of the data card, or the highest label plus 1 where it names none."""
    if store.classes:
        return len(store.classes)
    return int(store.labels.max(initial=-1)) + 1
