"""How far does one layer's routing follow class, and what would shuffled labels have given?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from routelab.analysis import class_statistics as of
from routelab.analysis.class_sums import (
    ClassSums,
    Labels,
    Sums,
    bootstraps,
    halves,
    permutations,
)
from routelab.analysis.intervals import Band, percentile_band

FloatArray = NDArray[np.float64]

STATISTICS = ("max_share", "contrast", "information", "eta_squared", "hard_information")
Z = 1.959963984540054
"""Normal quantile of a 95 % interval."""


class Association(NamedTuple):
    """Statistics of routing and class in one layer.

    Attributes
    ----------
    observed
        By name of `STATISTICS`.
    null
        Under shuffled labels, by name, each of shape (draws,).
    error
        Standard errors, by name, from halves of the images drawn without replacement.
    contrast
        Bootstrap interval of the contrast.
    profile
        Class profile, (C, E).
    table
        Images by class and top expert, (C, E).
    """

    observed: dict[str, float]
    null: dict[str, FloatArray]
    error: dict[str, float]
    contrast: Band
    profile: FloatArray
    table: FloatArray


def associate(
    shares: FloatArray,
    labels: NDArray[np.int64],
    classes: int,
    *,
    draws: int,
    resamples: int,
    seed: int,
) -> Association:
    """Measure one layer.

    Parameters
    ----------
    shares
        Image profiles, (n, E), rows that sum to 1; a NaN row (nothing was routed) is left out.
    labels
        Classes, (n,), from 0.
    classes
        C.
    draws, resamples, seed
        Numbers of permutations, and of bootstraps and halves; the same seed shuffles each layer
        alike, so that nulls of layers can be compared draw by draw.
    """
    valid = np.isfinite(shares).all(axis=1)
    measured = _Measured(shares if valid.all() else shares[valid], classes)
    every = labels.astype(np.int32)
    own = every[valid]
    null = _rows(
        measured.shuffled(block[:, valid]) for block in permutations(every, draws, seed=seed)
    )
    subsets = _rows(measured.of_half(own, block) for block in halves(own, resamples, seed=seed))
    contrasts = [
        of.contrast(measured.sums.weighted(own, block))
        for block in bootstraps(own, resamples, seed=seed)
    ]
    observed = measured.shuffled(own[None])[0]
    return Association(
        dict(zip(STATISTICS, observed.tolist(), strict=True)),
        dict(zip(STATISTICS, null.T, strict=True)),
        dict(zip(STATISTICS, subsets.std(axis=0).tolist(), strict=True)),
        percentile_band(np.concatenate(contrasts)),
        of.class_profile(measured.sums.under(own[None]))[0],
        measured.table(own[None])[0],
    )


class _Measured:
    """One layer's profiles and top experts, ready to be summed under any labels."""

    def __init__(self, shares: FloatArray, classes: int) -> None:
        self._size = (classes, shares.shape[1])
        self._top = shares.argmax(axis=1).astype(np.int64)
        self.sums = ClassSums(shares, classes)

    def table(self, labels: Labels, kept: NDArray[np.bool_] | None = None) -> FloatArray:
        """Images by class and top expert for each draw of labels (draws, n)."""
        classes, experts = self._size
        draw = np.arange(len(labels), dtype=np.int64)[:, None]
        cell = (draw * classes + labels) * experts + self._top
        counts = np.bincount(
            cell.ravel() if kept is None else cell[kept], minlength=len(labels) * classes * experts
        )
        return counts.reshape(len(labels), classes, experts).astype(np.float64)

    def shuffled(self, labels: Labels) -> FloatArray:
        """Statistics of each draw of labels, (draws, 5)."""
        return _statistics(self.sums.under(labels), self.table(labels))

    def of_half(self, labels: Labels, kept: NDArray[np.bool_]) -> FloatArray:
        """Statistics of each half of the images, (draws, 5)."""
        sums = self.sums.weighted(labels, kept.astype(np.float64))
        return _statistics(sums, self.table(np.broadcast_to(labels, kept.shape), kept))


def _statistics(sums: Sums, table: FloatArray) -> FloatArray:
    """In the order of `STATISTICS`, (draws, 5)."""
    columns = [
        of.max_share(sums),
        of.contrast(sums),
        of.information(sums.mass),
        of.eta_squared(sums),
        of.information(table),
    ]
    return np.stack(columns, axis=1)


def _rows(blocks: Iterator[FloatArray]) -> FloatArray:
    return np.concatenate([np.zeros((0, len(STATISTICS))), *blocks])
