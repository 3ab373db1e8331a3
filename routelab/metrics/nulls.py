"""What would random routing give, and how sure is a number? Nulls, intervals, many comparisons."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binomtest, false_discovery_control, norm

from routelab.metrics.arrays import FloatArray, IntArray, classes_of, finite, ratio

EXACT_LIMIT = 10_000
"""Labellings that are enumerated instead of drawn."""
TOLERANCE = 1e-12
"""A labelling that gives the observed value counts as reaching it, whatever the rounding."""

Statistic = Callable[[IntArray], float]


class Permutation(NamedTuple):
    """An observed number beside its permutation null.

    `p` = (1+b)/(1+m), or exactly b/m where all labellings were enumerated; `smallest_p` is the
    least that this design can give; `z` and `excess` are (observed − mean)/sd and observed − mean.
    """

    observed: float
    null_mean: float
    null_sd: float
    z: float
    p: float
    excess: float
    smallest_p: float
    null: FloatArray


def permutation_test(
    statistic: Statistic, labels: ArrayLike, *, permutations: int = 999, seed: int = 0
) -> Permutation:
    """Shuffle labels over images, never over tokens, and ask how often the statistic is as large (Q1).

    Parameters
    ----------
    statistic
        Number of a labelling `(n,)`; large means more. NaN gives NaN throughout.
    labels
        Class of each image.
    permutations, seed
        Of the draws; all labellings are enumerated where there are at most 10,000.
    """
    numbers = classes_of(labels)
    observed = float(statistic(numbers))
    exact = labelling_count(numbers) <= EXACT_LIMIT
    draws = every_labelling(numbers) if exact else shuffles(numbers, permutations, seed=seed)
    null = np.array([statistic(draw) for draw in draws])
    return against_null(observed, null, exact=exact)


def against_null(observed: float, null: ArrayLike, *, exact: bool = False) -> Permutation:
    """Put an observed number beside its null draws `(m,)`; `exact` if they are all labellings."""
    draws = np.asarray(null, dtype=np.float64)
    nan = float("nan")
    if math.isnan(observed) or not len(draws) or np.isnan(draws).any():
        return Permutation(observed, nan, nan, nan, nan, nan, nan, draws)
    slack = TOLERANCE * max(1.0, abs(observed))
    reached = int((draws >= observed - slack).sum())
    p = reached / len(draws) if exact else (1 + reached) / (1 + len(draws))
    least = 1 / len(draws) if exact else 1 / (1 + len(draws))
    mean, spread = float(draws.mean()), float(draws.std())
    z = (observed - mean) / spread if spread > slack else nan
    return Permutation(observed, mean, spread, z, p, observed - mean, least, draws)


def max_statistic_test(observed: ArrayLike, null: ArrayLike) -> FloatArray:
    """P of each layer `(L,)` against the largest layer of each shuffle `(m, L)` (Q4).

    Controls the chance of any false layer. Each row of `null` must be one shuffle of the labels in
    all layers; layers are put on one scale by their own null. NaN for a layer that never varies.
    """
    values, draws = np.asarray(observed, dtype=np.float64), np.asarray(null, dtype=np.float64)
    mean, spread = draws.mean(axis=0), draws.std(axis=0)
    varies = np.isfinite(values) & (spread > TOLERANCE * np.maximum(1, np.abs(mean)))
    p = np.full(values.shape, np.nan)
    if varies.any():
        scaled = ((draws - mean)[:, varies] / spread[varies]).max(axis=1)
        standard = ((values - mean)[varies] / spread[varies])[None] - TOLERANCE
        p[varies] = (1 + (scaled[:, None] >= standard).sum(axis=0)) / (1 + len(draws))
    return p


def labelling_count(labels: ArrayLike) -> int:
    """Number of different labellings with these class sizes, n! / Π n_c!."""
    counts = np.bincount(classes_of(labels))
    total = math.lgamma(counts.sum() + 1) - sum(math.lgamma(c + 1) for c in counts)
    if total > math.log(10 * EXACT_LIMIT):
        return 10 * EXACT_LIMIT
    return math.factorial(int(counts.sum())) // math.prod(math.factorial(int(c)) for c in counts)


def every_labelling(labels: ArrayLike) -> Iterator[IntArray]:
    """All different labellings with the same class sizes."""
    numbers = classes_of(labels)
    counts = np.bincount(numbers)

    def fill(free: tuple[int, ...], c: int, drawn: IntArray) -> Iterator[IntArray]:
        if c == len(counts):
            yield drawn.copy()
            return
        for chosen in combinations(free, int(counts[c])):
            drawn[list(chosen)] = c
            yield from fill(tuple(i for i in free if i not in chosen), c + 1, drawn)

    yield from fill(tuple(range(len(numbers))), 0, np.zeros(len(numbers), dtype=np.int64))


def shuffles(labels: ArrayLike, count: int, *, seed: int) -> Iterator[IntArray]:
    """Labels in random order, `count` times; the same seed gives the same shuffles."""
    numbers, generator = classes_of(labels), np.random.default_rng(seed)
    for _ in range(count):
        yield generator.permutation(numbers)


def smallest_p(labels: ArrayLike, permutations: int) -> float:
    """The least p that so many permutations, or all labellings, can give: four images never reach 5 %.

    >>> smallest_p([0, 0, 1, 1], 999)
    0.16666666666666666
    """
    count = labelling_count(labels)
    return 1 / count if count <= EXACT_LIMIT else 1 / (1 + permutations)


class Interval(NamedTuple):
    """Ends of a confidence interval."""

    low: float
    high: float


def wilson_interval(successes: float, n: float, *, confidence: float = 0.95) -> Interval:
    """Wilson score interval of a share; NaN without trials.

    >>> tuple(round(end, 7) for end in wilson_interval(3, 4))
    (0.3006418, 0.9544127)
    """
    if n <= 0:
        return Interval(float("nan"), float("nan"))
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
    seed: int = 0,
) -> Interval:
    """Interval of a statistic of images, resampled within class with all tokens kept together (Q2).

    Parameters
    ----------
    statistic
        Number of the images with these rows `(n,)`. Not for mutual information, maximum share or
        purity, which resampling biases: use their contrast or excess.
    strata
        Class of each image.
    method
        `percentile`, or `bca` (bias-corrected and accelerated).
    """
    numbers = classes_of(strata, name="strata")
    if method not in ("percentile", "bca"):
        raise ValueError(f"method is percentile or bca, not {method!r}")
    if not len(numbers):
        return Interval(float("nan"), float("nan"))
    draws = np.array([statistic(rows) for rows in resampled_rows(numbers, resamples, seed=seed)])
    tails = np.array([(1 - confidence) / 2, (1 + confidence) / 2])
    if method == "bca":
        tails = _bca_tails(statistic, len(numbers), draws, tails)
    low, high = np.quantile(draws, tails)
    return Interval(float(low), float(high))


def resampled_rows(strata: ArrayLike, count: int, *, seed: int) -> Iterator[IntArray]:
    """Rows of images drawn with replacement within their class, `count` times."""
    numbers, generator = classes_of(strata, name="strata"), np.random.default_rng(seed)
    order = np.argsort(numbers, kind="stable")
    size = np.bincount(numbers)
    start, width = np.repeat(np.cumsum(size) - size, size), np.repeat(size, size)
    for _ in range(count):
        yield order[start + (generator.random(len(order)) * width).astype(np.int64)]


def _bca_tails(
    statistic: Callable[[IntArray], float], n: int, draws: FloatArray, tails: FloatArray
) -> FloatArray:
    """Quantiles corrected for bias and skew (Efron 1987), the skew from leaving one image out."""
    rows = np.arange(n)
    below = np.clip(
        (draws < statistic(rows)).mean(), 1 / (len(draws) + 1), len(draws) / (len(draws) + 1)
    )
    bias = norm.ppf(below)
    left_out = np.array([statistic(np.delete(rows, i)) for i in rows])
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
    seed: int = 0,
) -> Interval:
    """Interval of mean(first − second) over the same images, resampled within class (Q5)."""
    difference = finite(first, name="first", ndim=1) - finite(second, name="second", ndim=1)
    return bootstrap_interval(
        lambda rows: float(difference[rows].mean()),
        strata,
        resamples=resamples,
        confidence=confidence,
        seed=seed,
    )


def mcnemar(first: ArrayLike, second: ArrayLike) -> float:
    """Exact p that two models are right equally often, from who is right on which image (Q5)."""
    a, b = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    only_first, only_second = int((a & ~b).sum()), int((~a & b).sum())
    if only_first + only_second == 0:
        return 1.0
    return float(binomtest(only_first, only_first + only_second).pvalue)


def benjamini_hochberg(p: ArrayLike) -> FloatArray:
    """Adjusted p (q values) that control the false discovery rate over many cells (Q4).

    >>> benjamini_hochberg([0.01, 0.04, 0.03, 0.5]).round(7)
    array([0.04     , 0.0533333, 0.0533333, 0.5      ])
    """
    values = finite(p, name="p")
    if not values.size:
        return values
    return np.asarray(false_discovery_control(values.ravel())).reshape(values.shape)


def split_halves(
    strata: ArrayLike, *, seed: int = 0
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Two disjoint halves of the images, even within class: choose on one, measure on the other (Q7)."""
    numbers, generator = classes_of(strata, name="strata"), np.random.default_rng(seed)
    shuffled = generator.permutation(len(numbers))
    by_class = shuffled[np.argsort(numbers[shuffled], kind="stable")]
    first = np.zeros(len(numbers), dtype=bool)
    first[by_class[::2]] = True
    return first, ~first


def split_half_correlation(first: ArrayLike, second: ArrayLike) -> float:
    """Reliability: correlation of two class profiles `(C, E)` of disjoint halves over all cells (Q7).

    Classes that are empty in a half are left out; NaN where a profile does not vary.
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    both = np.isfinite(a).all(axis=1) & np.isfinite(b).all(axis=1)
    x, y = a[both] - a[both].mean(), b[both] - b[both].mean()
    return float(ratio((x * y).sum(), math.sqrt((x**2).sum() * (y**2).sum())))


def design_effect(tokens: int, correlation: float) -> float:
    """How much less tokens of one image say than independent ones: 1 + (T−1)ρ (Q2)."""
    return 1 + (tokens - 1) * correlation


def pooled_interval(values: Sequence[float], *, confidence: float = 0.95) -> Interval:
    """Student interval of a mean over training seeds; NaN with fewer than two (Q3)."""
    from scipy.stats import t

    seeds = finite(values, name="values", ndim=1)
    if len(seeds) < 2:
        return Interval(float("nan"), float("nan"))
    half = t.ppf((1 + confidence) / 2, len(seeds) - 1) * seeds.std(ddof=1) / math.sqrt(len(seeds))
    return Interval(float(seeds.mean() - half), float(seeds.mean() + half))
