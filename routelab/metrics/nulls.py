"""What would shuffled labels give, how often as much, and in the largest of many layers?"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from routelab.metrics.arrays import FloatArray, IntArray, classes_of
from routelab.metrics.labellings import Seed, labellings

TOLERANCE = 1e-12
"""Relative: a labelling that gives the observed value reaches it, whatever the rounding."""

NAN = float("nan")
Statistic = Callable[[IntArray], ArrayLike]


class Permutation(NamedTuple):
    """An observed number beside its permutation null.

    `p` = (1+b)/(1+m) from m draws of which b reach the observed number, or exactly b/m where all
    labellings were enumerated (`exact`); `smallest_p` is the least that this design can give; `z`
    and `excess` are (observed − mean)/sd and observed − mean. `reason` says what is NaN and why.
    """

    observed: float
    null_mean: float
    null_sd: float
    z: float
    p: float
    excess: float
    smallest_p: float
    null: FloatArray
    exact: bool
    reason: str


def permutation_test(
    statistic: Statistic,
    labels: ArrayLike,
    *,
    permutations: int = 999,
    seed: Seed = 0,
    strata: ArrayLike | None = None,
) -> Permutation:
    """Shuffle labels over images, never over tokens: how often is the statistic as large (Q1)?

    Parameters
    ----------
    statistic
        Number of a labelling `(n,)`; large means more. NaN gives NaN throughout.
    labels
        Class of each image.
    permutations, seed
        Of the draws; all labellings are enumerated where there are at most 10,000.
    strata
        A nuisance of each image (source, domain): labels are shuffled inside it only.

    >>> labels, expert = np.array([0, 0, 1, 1]), np.array([0, 0, 1, 1])
    >>> found = permutation_test(lambda shuffled: (shuffled == expert).mean(), labels)
    >>> found.observed, found.null_mean, round(found.p, 4), found.exact
    (1.0, 0.5, 0.1667, True)
    """
    numbers = classes_of(labels)
    draws = null_draws(statistic, numbers, permutations=permutations, seed=seed, strata=strata)
    return against_null(float(np.asarray(statistic(numbers))), draws.null, exact=draws.exact)


class NullDraws(NamedTuple):
    """A statistic under labellings `(m,)` or `(m, L)`, and whether these are all that there are."""

    null: FloatArray
    exact: bool


def null_draws(
    statistic: Statistic,
    labels: ArrayLike,
    *,
    permutations: int = 999,
    seed: Seed = 0,
    strata: ArrayLike | None = None,
) -> NullDraws:
    """The statistic of shuffled labels; one of all layers at once has them under one shuffle."""
    drawn = labellings(labels, permutations=permutations, seed=seed, strata=strata)
    rows = [np.asarray(statistic(draw), dtype=np.float64) for draw in drawn.rows]
    return NullDraws(np.array(rows, dtype=np.float64), drawn.exact)


def against_null(observed: float, null: ArrayLike, *, exact: bool = False) -> Permutation:
    """Put an observed number beside its null draws `(m,)`; `exact` if they are all labellings."""
    draws = np.asarray(null, dtype=np.float64)
    if math.isnan(observed) or np.isnan(draws).any():
        return _undefined(observed, draws, exact, "degenerate: the statistic is undefined")
    if not len(draws):
        return _undefined(observed, draws, exact, "no permutation was drawn")
    slack = TOLERANCE * max(1.0, abs(observed)) if math.isfinite(observed) else 0.0
    reached = int((draws >= observed - slack).sum())
    if exact:
        p, least = reached / len(draws), float((draws >= draws.max() - slack).mean())
    else:
        p, least = (1 + reached) / (1 + len(draws)), 1 / (1 + len(draws))
    if not (math.isfinite(observed) and np.isfinite(draws).all()):
        reason = "infinite values have ranks only"
        return Permutation(observed, NAN, NAN, NAN, p, NAN, least, draws, exact, reason)
    mean, spread = float(draws.mean()), float(draws.std())
    varies = spread > slack
    z, reason = (observed - mean) / spread if varies else NAN, ""
    if not varies:
        spread, reason = 0.0, "no z: every labelling gives the same number"
    return Permutation(observed, mean, spread, z, p, observed - mean, least, draws, exact, reason)


def _undefined(observed: float, draws: FloatArray, exact: bool, reason: str) -> Permutation:
    return Permutation(observed, NAN, NAN, NAN, NAN, NAN, NAN, draws, exact, reason)


def adjusted_score(observed: float, chance: float, *, largest: float = 1.0) -> float:
    """(observed − chance)/(largest − chance): 0 by chance, 1 at the largest value (Q1).

    Only where `largest` can be reached, as under hard routing; NaN where chance is already there.

    >>> adjusted_score(0.75, 0.5), adjusted_score(0.5, 0.5), adjusted_score(1.0, 1.0)
    (0.5, 0.0, nan)
    """
    room = largest - chance
    return (observed - chance) / room if abs(room) > TOLERANCE else NAN


def max_statistic_test(observed: ArrayLike, null: ArrayLike, *, exact: bool = False) -> FloatArray:
    """P of each layer `(L,)` against the largest layer of each shuffle `(m, L)` (Q4).

    Controls the chance of any false layer (family-wise). Each row of `null` must be one shuffle of
    the labels in all layers, as `null_draws` of a statistic of all layers gives, or one seed in
    `consistency_test`. Layers are put on one scale by the mean and deviation of all labellings, the
    observed one among them. NaN for a layer that never varies or is undefined.
    """
    values, draws = np.asarray(observed, dtype=np.float64), np.asarray(null, dtype=np.float64)
    if draws.ndim != 2 or values.shape != draws.shape[1:]:
        raise ValueError(f"null has shape {draws.shape}, and must be (draws, {values.size} layers)")
    p = np.full(values.shape, np.nan)
    every = draws if exact else np.vstack([values, draws])
    usable = np.isfinite(values) & np.isfinite(every).all(axis=0)
    if not len(draws) or not usable.any():
        return p
    kept = every[:, usable]
    mean, spread = kept.mean(axis=0), kept.std(axis=0)
    varies = spread > TOLERANCE * np.maximum(1, np.abs(mean))
    columns = np.flatnonzero(usable)[varies]
    if not len(columns):
        return p
    mean, spread = mean[varies], spread[varies]
    largest = ((draws[:, columns] - mean) / spread).max(axis=1)
    standard = (values[columns] - mean) / spread
    slack = TOLERANCE * np.maximum(1, np.abs(values[columns])) / spread
    reached = (largest[:, None] >= standard - slack).sum(axis=0)
    p[columns] = reached / len(draws) if exact else (1 + reached) / (1 + len(draws))
    return p
