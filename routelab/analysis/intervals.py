"""How sure is a mean over images? They are drawn again within class, tokens stay together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from routelab.analysis.class_sums import bootstraps
from routelab.store import CaptureStore

FloatArray = NDArray[np.float64]
CONFIDENCE = 0.95


class Band(NamedTuple):
    """The ends of an interval, or of a null's range."""

    low: FloatArray
    high: FloatArray


def percentile_band(draws: ArrayLike, *, confidence: float = CONFIDENCE) -> Band:
    """Central percentile range over the first axis of draws; NaN where every draw is NaN."""
    values = np.asarray(draws, dtype=np.float64)
    tail = (1 - confidence) / 2
    empty = np.isnan(values).all(axis=0)
    low, high = np.nanquantile(np.where(empty, 0.0, values), [tail, 1 - tail], axis=0)
    return Band(np.where(empty, np.nan, low), np.where(empty, np.nan, high))


def resampled_means(
    rows: ArrayLike, strata: NDArray[np.integer], *, draws: int, seed: int
) -> FloatArray:
    """Column means of bootstrap samples of rows (n, q), drawn within strata: shape (draws, q).

    A NaN cell counts neither in the sum nor in the count of its column.
    """
    values = np.asarray(rows, dtype=np.float64)
    present = np.isfinite(values)
    both = np.hstack([np.where(present, values, 0.0), present])
    weights = bootstraps(strata.astype(np.int32), draws, seed=seed)
    total, count = np.hsplit(np.concatenate([block @ both for block in weights]), 2)
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)


def strata(store: CaptureStore) -> NDArray[np.int64]:
    """Strata of the bootstrap: the class of each image, and one more for images without a label."""
    return np.asarray(store.labels, dtype=np.int64) + 1


def mean_band(store: CaptureStore, rows: ArrayLike, *, draws: int, seed: int) -> Band:
    """Interval of the column means of per-image rows (n,) or (n, q)."""
    values = np.asarray(rows, dtype=np.float64)
    columns = values.reshape(len(values), -1)
    band = percentile_band(resampled_means(columns, strata(store), draws=draws, seed=seed))
    return Band(*(edge.reshape(values.shape[1:]) for edge in band))
