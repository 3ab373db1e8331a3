"""How far would an expert's class mix be from all images' if it took them at random?"""

from __future__ import annotations

import math
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import multinomial

from routelab.metrics.arrays import FloatArray, IntArray, classes_of, masses, same_length
from routelab.metrics.entropy import jensen_shannon_divergence
from routelab.metrics.labellings import EXACT_LIMIT, Seed
from routelab.metrics.nulls import null_draws
from routelab.metrics.profiles import class_sums
from routelab.metrics.specialization import expert_divergence


class DivergenceTest(NamedTuple):
    """Divergence (bits) of each expert `(E,)`, its permutation mean, their difference, and p.

    `exact` where all labellings were enumerated. NaN for a dead expert, and throughout where there
    is one class only.
    """

    observed: FloatArray
    chance: FloatArray
    excess: FloatArray
    p: FloatArray
    exact: bool


def divergence_test(
    labels: ArrayLike, profile: ArrayLike, *, permutations: int = 999, seed: Seed = 0
) -> DivergenceTest:
    """Does an expert see other classes than all images (S2)? Image labels are shuffled.

    Parameters
    ----------
    labels
        Class of each image `(n,)`.
    profile
        Image profiles `(n, E)`, soft or hard.
    permutations, seed
        Of the shuffles; all labellings are enumerated where there are at most 10,000.
    """
    numbers, rows = classes_of(labels), masses(profile, name="profile", ndim=2)
    same_length(numbers, rows, names=("labels", "profile"))
    undefined = np.full(rows.shape[1], np.nan)
    if np.unique(numbers).size < 2:
        return DivergenceTest(undefined, undefined, undefined, undefined, False)
    classes = int(numbers.max()) + 1

    def divergence(drawn: IntArray) -> FloatArray:
        return expert_divergence(class_sums(drawn, rows, classes=classes))

    observed = divergence(numbers)
    draws = null_draws(divergence, numbers, permutations=permutations, seed=seed)
    null = draws.null.reshape(-1, len(observed))
    if not len(null):
        return DivergenceTest(observed, undefined, undefined, undefined, False)
    reached = (null >= observed - 1e-12).sum(axis=0)
    p = reached / len(null) if draws.exact else (1 + reached) / (1 + len(null))
    chance = null.mean(axis=0)
    return DivergenceTest(
        observed, chance, observed - chance, np.where(np.isnan(observed), np.nan, p), draws.exact
    )


def multinomial_divergence(
    mix: ArrayLike, count: int, *, draws: int = 1000, seed: Seed = 0
) -> float:
    """Mean divergence (bits) of `count` images drawn from a class mix `(C,)`: chance of S2.

    Exact where at most 10,000 outcomes are possible, else the mean of `draws` random ones; NaN for
    no image or an empty mix. Images count as independent; tokens of an image are not, so that for
    them this chance level is far too low: see `divergence_test`.

    >>> round(multinomial_divergence([0.5, 0.5], 2), 7)
    0.1556391
    """
    weights = masses(mix, name="mix", ndim=1)
    if count < 1 or not weights.sum() > 0:
        return float("nan")
    share = weights[weights > 0] / weights.sum()
    outcomes = math.comb(count + len(share) - 1, len(share) - 1)
    if outcomes > EXACT_LIMIT:
        drawn = np.random.default_rng(seed).multinomial(count, share, size=draws)
        return float(jensen_shannon_divergence(drawn / count, share).mean())
    drawn = _outcomes(count, len(share))
    return float(
        multinomial.pmf(drawn, count, share) @ jensen_shannon_divergence(drawn / count, share)
    )


def _outcomes(count: int, classes: int) -> IntArray:
    """All ways to share `count` images among classes, one a row: stars and bars."""
    places = count + classes - 1
    bars = np.array(list(combinations(range(places), classes - 1)), dtype=np.int64)
    edges = np.pad(bars, ((0, 0), (1, 1)), constant_values=((0, 0), (-1, places)))
    return np.diff(edges, axis=1) - 1
