"""Which classes does an expert see? Purity, divergence from the class mix, lift, selectivity.

All take the class × expert table `(C, E)`: counts of images, or sums of their profiles.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from routelab.metrics.arrays import FloatArray, IntArray, classes_of, masses, ratio
from routelab.metrics.entropy import jensen_shannon_divergence, shannon_entropy


def expert_class_share(table: ArrayLike) -> FloatArray:
    """Class mix of each expert, `(C, E)` with columns that sum to 1; a dead expert is NaN (S1)."""
    counts = _table(table)
    return ratio(counts, counts.sum(axis=0))


def expert_purity(table: ArrayLike) -> FloatArray:
    """Share of each expert's largest class, `(E,)` from 1/C to 1; NaN if dead (S1).

    >>> expert_purity([[2, 0], [1, 1]]).round(7)
    array([0.6666667, 1.       ])
    """
    return expert_class_share(table).max(axis=0)


def overall_purity(table: ArrayLike) -> float:
    """Σ_e max_c N / n: share of images that are of their expert's largest class (S1)."""
    counts = _table(table)
    return float(ratio(counts.max(axis=0).sum(), counts.sum()))


def expert_class_entropy(table: ArrayLike, *, normalized: bool = True) -> FloatArray:
    """Entropy of each expert's class mix, `(E,)`: over ln C, or in nats; NaN if dead (S1)."""
    share = expert_class_share(table)
    defined = np.isfinite(share).all(axis=0)
    entropy = np.full(share.shape[1], np.nan)
    entropy[defined] = shannon_entropy(share[:, defined], axis=0)
    if not normalized:
        return entropy
    return ratio(entropy, np.log(share.shape[0]))


class PuritySummary(NamedTuple):
    """Means over the experts at work, and who was left out of them (S1).

    `purity` and `entropy` (over ln C) are means over experts, `overall` is over images; `dead (E,)`
    experts are in no mean, and `few (E,)` have some but too little mass to be read alone.
    """

    purity: float
    overall: float
    entropy: float
    dead: NDArray[np.bool_]
    few: NDArray[np.bool_]


def purity_summary(table: ArrayLike, *, least: float = 10) -> PuritySummary:
    """How pure is a layer? Experts of fewer than `least` images are named, not hidden (S1).

    >>> purity_summary([[2, 0, 0], [1, 1, 0]]).dead
    array([False, False,  True])
    """
    counts = _table(table)
    work = counts.sum(axis=0)
    alive = work > 0
    purity, entropy = expert_purity(counts)[alive], expert_class_entropy(counts)[alive]
    return PuritySummary(
        float(purity.mean()) if alive.any() else float("nan"),
        overall_purity(counts),
        float(entropy.mean()) if alive.any() else float("nan"),
        ~alive,
        alive & (work < least),
    )


def expert_divergence(table: ArrayLike) -> FloatArray:
    """Jensen–Shannon divergence (bits, 0 to 1) of each expert's class mix from all images' (S2).

    Its chance level is not 0: see `divergence_test` and `multinomial_divergence`.
    """
    counts = _table(table)
    share, alive = expert_class_share(counts), counts.sum(axis=0) > 0
    divergence = np.full(counts.shape[1], np.nan)
    if alive.any():
        mix = counts.sum(axis=1, keepdims=True) / counts.sum()
        divergence[alive] = jensen_shannon_divergence(
            share[:, alive], np.broadcast_to(mix, share[:, alive].shape), axis=0
        )
    return divergence


def expert_information(table: ArrayLike) -> FloatArray:
    """Kullback–Leibler divergence (bits) of each expert's class mix from all images', `(E,)` (S2).

    Weighted by load they add up to the mutual information of class and expert.
    """
    counts = _table(table)
    share = expert_class_share(counts)
    mix = counts.sum(axis=1, keepdims=True) / max(counts.sum(), 1e-300)
    quotient = np.where(share > 0, ratio(share, np.where(mix > 0, mix, 1.0)), 1.0)
    return np.where(np.isnan(share), np.nan, share * np.log2(quotient)).sum(axis=0)


def lift(table: ArrayLike) -> FloatArray:
    """N · n / (n_c N_e), `(C, E)`: how many times more often than by chance; 1 by chance (S3).

    NaN for an empty class or a dead expert.

    >>> lift([[2, 0], [1, 1]]).round(7)
    array([[1.3333333, 0.       ],
           [0.6666667, 2.       ]])
    """
    counts = _table(table)
    return ratio(counts * counts.sum(), np.outer(counts.sum(axis=1), counts.sum(axis=0)))


def pointwise_information(table: ArrayLike) -> FloatArray:
    """Logarithm (bits) of the lift, `(C, E)`: 0 by chance; NaN, never −∞, if empty (S3)."""
    times = lift(table)
    return np.log2(np.where(times > 0, times, np.nan))


def log_lift(table: ArrayLike, *, alpha: float = 0.5) -> FloatArray:
    """Smoothed log2 lift `(C, E)`, finite everywhere (S3).

    log2 [(N+α)/(n_c+αE)] / [(N_e+α)/(n+αE)]. An expert with little mass beside α and many classes
    comes out high for *all* of them; `shrunken_lift` does not do that.
    """
    counts = _table(table)
    if not alpha > 0:
        raise ValueError(f"alpha must be above 0, not {alpha}; without smoothing take lift")
    experts = counts.shape[1]
    of_class = (counts + alpha) / (counts.sum(axis=1, keepdims=True) + alpha * experts)
    of_all = (counts.sum(axis=0) + alpha) / (counts.sum() + alpha * experts)
    return np.asarray(np.log2(of_class / of_all))


def shrunken_lift(table: ArrayLike, *, alpha: float = 0.5) -> FloatArray:
    """Log2 of (N + α) / (n_c N_e / n + α), `(C, E)`: observed over expected, drawn to 0 where few.

    Both sides of the ratio get α, so an expert whose classes are those of all images has 0 in every
    cell however little it does (Norén, Hopstadius and Bate 2013, Stat. Methods Med. Res. 22, 57).
    NaN for an empty class and a dead expert, whose expected mass is 0.

    >>> shrunken_lift([[2, 0], [1, 1]]).round(7)
    array([[ 0.3219281, -1.       ],
           [-0.4150375,  0.5849625]])
    """
    counts = _table(table)
    if not alpha > 0:
        raise ValueError(f"alpha must be above 0, not {alpha}; without shrinkage take lift")
    expected = ratio(np.outer(counts.sum(axis=1), counts.sum(axis=0)), counts.sum())
    expected = np.where(expected > 0, expected, np.nan)
    return np.asarray(np.log2((counts + alpha) / (expected + alpha)))


def selectivity(means: ArrayLike, preferred: ArrayLike | None = None) -> FloatArray:
    """(μ_p − mean of others) / (μ_p + mean of others) of class means `(C, E)`, `(E,)` (S4).

    `preferred (E,)` is the class of each expert, chosen on other images: without it the largest of
    these very means is taken, and the index is too large by the winner's curse.
    """
    values = masses(means, name="means", ndim=2)
    if len(values) < 2:
        return np.full(values.shape[1], np.nan)
    chosen = values.argmax(axis=0) if preferred is None else _preferred(preferred, values)
    own = values[chosen, np.arange(values.shape[1])]
    others = (values.sum(axis=0) - own) / (len(values) - 1)
    return ratio(own - others, own + others)


def _preferred(preferred: ArrayLike, means: FloatArray) -> IntArray:
    """One class an expert, of those that there are."""
    chosen = classes_of(preferred, name="preferred")
    if len(chosen) != means.shape[1] or (chosen >= len(means)).any():
        raise ValueError(
            f"preferred must name one of {len(means)} classes for each of {means.shape[1]} experts"
        )
    return chosen


class Relevance(NamedTuple):
    """Share of the score at each expert `(E,)`; the smallest set that reaches the wanted share;
    and whether a tie at the cut made that set larger.
    """

    score: FloatArray
    kept: NDArray[np.bool_]
    tied: bool


def expert_relevance(score: ArrayLike, *, share: float) -> Relevance:
    """Smallest set of experts that holds `share` of a class's score, ties included (S5, ESFT).

    `score (E,)` is the mean gate of each expert over the tokens of a class or task, or its number
    of selections: shares are over the experts of one layer, never over layers.

    >>> expert_relevance([0.5, 0.3, 0.2], share=0.6).kept
    array([ True,  True, False])
    """
    values = masses(score, name="score", ndim=1)
    if not 0 < share <= 1:
        raise ValueError(f"share must be above 0 and at most 1, not {share}")
    portions = ratio(values, values.sum())
    ordered = np.sort(portions)[::-1]
    reached = np.flatnonzero(np.cumsum(ordered) >= share - 1e-9)
    if not len(reached):
        return Relevance(portions, np.zeros(len(values), dtype=bool), False)
    kept = portions >= ordered[reached[0]] * (1 - 1e-12)
    return Relevance(portions, kept, bool(kept.sum() > reached[0] + 1))


def _table(table: ArrayLike) -> FloatArray:
    counts = masses(table, name="table", ndim=2)
    if not len(counts):
        raise ValueError("table must have a row for each class, and it has none")
    return counts
