"""What are the mean and the quantiles of curves that are too many to keep?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


class CurveSummary:
    """Mean and quantiles of curves with values in [0, 1], from counts in bins of each point.

    Memory is points × bins whatever the number of curves; a quantile is exact to 1 / bins.

    Parameters
    ----------
    points
        Length of a curve.
    bins
        Bins of [0, 1] at every point.
    """

    def __init__(self, points: int, *, bins: int = 1000) -> None:
        self._bins = bins
        self._counts = np.zeros((points, bins), dtype=np.int64)
        self._sum = np.zeros(points)
        self._curves = 0

    def add(self, curves: FloatArray) -> None:
        """Count curves of shape (..., points)."""
        rows = np.asarray(curves, dtype=np.float64).reshape(-1, len(self._sum))
        place = np.clip((rows * self._bins).astype(np.int64), 0, self._bins - 1)
        flat = place + np.arange(len(self._sum)) * self._bins
        self._counts += np.bincount(flat.ravel(), minlength=self._counts.size).reshape(
            self._counts.shape
        )
        self._sum += rows.sum(axis=0)
        self._curves += len(rows)

    @property
    def mean(self) -> FloatArray:
        """Mean curve, shape (points,); NaN before the first curve."""
        if not self._curves:
            return np.full(self._sum.shape, np.nan)
        return self._sum / self._curves

    def quantiles(self, levels: Sequence[float]) -> FloatArray:
        """Curves of the quantiles at `levels`, shape (levels, points): the middle of their bin."""
        if not self._curves:
            return np.full((len(levels), len(self._sum)), np.nan)
        cumulated = self._counts.cumsum(axis=1) / self._curves
        bins = [(cumulated < level - 1e-12).sum(axis=1) for level in levels]
        return (np.array(bins) + 0.5) / self._bins
