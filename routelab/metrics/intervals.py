"""How sure is a number? Intervals from images drawn again, never from tokens."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm, t

from routelab.metrics.arrays import FloatArray, IntArray, classes_of, finite, ratio, same_length
from routelab.metrics.labellings import Seed

NAN = float("nan")


class Interval(NamedTuple):
    """Ends of a confidence interval."""

    low: float
    high: float


def wilson_interval(successes: float, n: float, *, confidence: float = 0.95) -> Interval:
    """Wilson score interval of a share; NaN without trials.

    >>> tuple(round(end, 7) for end in wilson_interval(3, 4))
    (0.3006418, 0.9544127)
    """
    if not 0 <= successes <= max(n, 0):
        raise ValueError(f"successes must be from 0 to n, not {successes} of {n}")
    if n == 0:
        return Interval(NAN, NAN)
    z = float(norm.ppf((1 + confidence) / 2))
    share, width = successes / n, z * z / n
    centre = (share + width / 2) / (1 + width)
    half = z * math.sqrt(share * (1 - share) / n + width / (4 * n)) / (1 + width)
    return Interval(max(centre - half, 0.0), min(centre + half, 1.0))


def bootstrap_interval(
    statistic: Callable[[IntArray], float],
    strata: ArrayLike,
    *,
    resamples: int = 1000,
    confidence: float = 0.95,
    method: str = "percentile",
    seed: Seed = 0,
) -> Interval:
    """Interval of a statistic of images, resampled within class with all tokens kept together (Q2).

    Parameters
    ----------
    statistic
        Number of the images with these rows `(n,)`. Not for mutual information, maximum share or
        purity, which resampling biases. The contrast is free of that only if copies of an image
        are not pairs: `agreement(labels, profile, weights=np.bincount(rows, minlength=n))`.
    strata
        Class of each image.
    method
        `percentile`, or `bca` (bias-corrected and accelerated), which calls the statistic n times
        more.

    >>> right = np.array([1, 1, 0, 1])  # three of four: the law of draws is Binomial(4, 3/4) / 4
    >>> bootstrap_interval(lambda rows: right[rows].mean(), np.zeros(4))
    Interval(low=0.25, high=1.0)
    """
    numbers = classes_of(strata, name="strata")
    if method not in ("percentile", "bca"):
        raise ValueError(f"method is percentile or bca, not {method!r}")
    if not len(numbers):
        return Interval(NAN, NAN)
    draws = np.array([statistic(rows) for rows in resampled_rows(numbers, resamples, seed=seed)])
    tails = np.array([(1 - confidence) / 2, (1 + confidence) / 2])
    if method == "bca":
        tails = _bca_tails(statistic, len(numbers), draws, tails)
    low, high = np.quantile(draws, tails)
    return Interval(float(low), float(high))


def resampled_rows(strata: ArrayLike, count: int, *, seed: Seed) -> Iterator[IntArray]:
    """Rows of images drawn with replacement within their class, `count` times.

    Place i holds an image of the class of image i, so that labels stand as they are.
    """
    numbers, generator = classes_of(strata, name="strata"), np.random.default_rng(seed)
    order = np.argsort(numbers, kind="stable")
    size = np.bincount(numbers)
    start, width = np.repeat(np.cumsum(size) - size, size), np.repeat(size, size)
    for _ in range(count):
        drawn = np.empty_like(order)
        drawn[order] = order[start + (generator.random(len(order)) * width).astype(np.int64)]
        yield drawn


def _bca_tails(
    statistic: Callable[[IntArray], float], n: int, draws: FloatArray, tails: FloatArray
) -> FloatArray:
    """Quantiles corrected for bias and skew (Efron 1987), the skew from leaving one image out."""
    rows = np.arange(n)
    observed = statistic(rows)
    # Draws equal to the observed number count half, as a continuous law would have it.
    below = ((draws < observed).mean() + (draws <= observed).mean()) / 2
    bias = norm.ppf(np.clip(below, 1 / (len(draws) + 1), len(draws) / (len(draws) + 1)))
    left_out = np.array([statistic(np.delete(rows, i)) for i in rows]) if n > 1 else np.zeros(1)
    away = left_out.mean() - left_out
    skew = float(np.nan_to_num(ratio((away**3).sum(), 6 * (away**2).sum() ** 1.5)))
    shifted = bias + norm.ppf(tails)
    return np.asarray(norm.cdf(bias + shifted / (1 - skew * shifted)))


def paired_bootstrap(
    first: ArrayLike,
    second: ArrayLike,
    strata: ArrayLike,
    *,
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: Seed = 0,
) -> Interval:
    """Interval of mean(first − second) over the same images, resampled within class (Q5)."""
    a, b = finite(first, name="first", ndim=1), finite(second, name="second", ndim=1)
    same_length(a, b, names=("first", "second"))
    difference = a - b
    same_length(difference, np.asarray(strata), names=("first", "strata"))
    return bootstrap_interval(
        lambda rows: float(difference[rows].mean()),
        strata,
        resamples=resamples,
        confidence=confidence,
        seed=seed,
    )


def pooled_interval(values: Sequence[float], *, confidence: float = 0.95) -> Interval:
    """Student interval of a mean over training seeds; NaN with fewer than two (Q3)."""
    seeds = finite(values, name="values", ndim=1)
    if len(seeds) < 2:
        return Interval(NAN, NAN)
    half = t.ppf((1 + confidence) / 2, len(seeds) - 1) * seeds.std(ddof=1) / math.sqrt(len(seeds))
    return Interval(float(seeds.mean() - half), float(seeds.mean() + half))


def design_effect(tokens: int, correlation: float) -> float:
    """How much less tokens of one image say than independent ones: 1 + (T−1)ρ (Q2).

    >>> design_effect(196, 0.1)  # 100 images carry 19,600 / 20.5 = 956 tokens' worth
    20.5
    """
    return 1 + (tokens - 1) * correlation
