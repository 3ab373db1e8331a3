"""Who is used, and how evenly? Load over experts, read from combine mass and never from dispatch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from routelab.metrics.arrays import FloatArray, finite, masses, ratio
from routelab.metrics.entropy import shannon_entropy


def load_share(load: ArrayLike) -> FloatArray:
    """Share of the load `(E,)` at each expert, sums to 1; NaN where nothing was routed (L1).

    `load` may be token counts, summed gates (importance) or summed combine mass.

    >>> load_share([3, 2, 2, 1])
    array([0.375, 0.25 , 0.25 , 0.125])
    """
    values = masses(load, name="load", ndim=1)
    return ratio(values, values.sum())


def cv_squared(load: ArrayLike) -> float:
    """Squared coefficient of variation var/mean² of a load `(E,)`: 0 even, E−1 collapsed (L2).

    >>> cv_squared([4, 0, 0, 0])
    3.0
    """
    values = masses(load, name="load", ndim=1)
    return float(ratio(values.var(), values.mean() ** 2))


def max_violation(load: ArrayLike) -> float:
    """max/mean − 1 of a load `(E,)`: 0 even, E−1 collapsed (L3)."""
    values = masses(load, name="load", ndim=1)
    return float(ratio(values.max(), values.mean())) - 1


def min_violation(load: ArrayLike) -> float:
    """min/mean − 1 of a load `(E,)`: 0 even, −1 with a dead expert (L3)."""
    values = masses(load, name="load", ndim=1)
    return float(ratio(values.min(), values.mean())) - 1


def load_entropy(load: ArrayLike, *, normalized: bool = False) -> float:
    """Entropy of the load shares in nats, or divided by ln E: 1 even, 0 collapsed (L4).

    The entropy of the average distribution, not the average of the tokens' entropies
    (`gate_entropies`). NaN without load, and normalised with one expert (0/0).
    """
    share = load_share(load)
    if np.isnan(share).any() or (normalized and len(share) == 1):
        return float("nan")
    return float(shannon_entropy(share) / (np.log(len(share)) if normalized else 1.0))


def load_divergence(load: ArrayLike) -> float:
    """Kullback–Leibler divergence of the load from uniform, ln E − H, in nats: 0 even (L4)."""
    return float(np.log(len(np.asarray(load))) - load_entropy(load))


def effective_experts(load: ArrayLike, *, order: int = 1) -> float:
    """Number of equally used experts with the same diversity, from 1 to E (L5).

    `order` 1 is exp H (Hill number N1), 2 is 1/Σ f² (N2, at most N1).

    >>> effective_experts([4, 4, 0, 0]), effective_experts([4, 4, 0, 0], order=2)
    (2.0, 2.0)
    """
    share = load_share(load)
    if np.isnan(share).any():
        return float("nan")
    if order == 1:
        return float(np.exp(shannon_entropy(share)))
    if order == 2:
        return float(1 / (share**2).sum())
    raise ValueError(f"order is 1 or 2, not {order}")


def gini(load: ArrayLike, *, normalized: bool = False) -> float:
    """Gini coefficient of a load `(E,)`: 0 even, 1−1/E collapsed, or 1 if normalized (L6)."""
    values = np.sort(masses(load, name="load", ndim=1))
    experts = len(values)
    if values.sum() == 0 or (normalized and experts == 1):
        return float("nan")
    rank = np.arange(1, experts + 1)
    index = ((2 * rank - experts - 1) * values).sum() / (experts * values.sum())
    return float(index * experts / (experts - 1) if normalized else index)


def dead_experts(load: ArrayLike) -> NDArray[np.bool_]:
    """Experts `(E,)` with no load at all over the evaluation set (L7)."""
    return masses(load, name="load", ndim=1) == 0


def cold_experts(load: ArrayLike, *, alpha: float = 0.1) -> NDArray[np.bool_]:
    """Experts `(E,)` with a share below α/E; dead ones are cold too (L7).

    The limit scales with 1/E: a fixed one would call every expert of a wide uniform layer dead.
    """
    share = load_share(load)
    return np.asarray(np.nan_to_num(share) < alpha / len(share))


def unseen_probability(share: ArrayLike, *, tokens: int) -> FloatArray:
    """Probability (1−q)^M that an expert of true share q is unseen in M routed tokens (L7)."""
    return (1 - masses(share, name="share")) ** tokens


class GateEntropies(NamedTuple):
    """Entropies in nats: mean of the tokens' own, of their mean, and the difference (≥ 0)."""

    local: float
    marginal: float
    information: float


def gate_entropies(gates: ArrayLike) -> GateEntropies:
    """Is each token decided, and are all together spread? `gates (…, E)`, rows sum to 1 (L8).

    `information` = marginal − local is the mutual information of token and expert. Both entropies
    near ln E: an undecided, balanced router, which load alone calls healthy.
    """
    rows = masses(gates, name="gates")
    rows = rows.reshape(-1, rows.shape[-1])
    if not len(rows):
        return GateEntropies(*(float("nan"),) * 3)
    local = float(shannon_entropy(rows).mean())
    marginal = float(shannon_entropy(rows.mean(axis=0)))
    return GateEntropies(local, marginal, max(marginal - local, 0.0))


class Hardness(NamedTuple):
    """Mean over tokens of the largest mass, and of its lead over the second."""

    largest: float
    margin: float


def hardness(mass: ArrayLike) -> Hardness:
    """How nearly is the router a choice? Print it beside every argmax of soft routing (rule 11).

    `mass (…, E)`; near 1/E the argmax is noise. One expert: margin NaN.

    >>> hardness([[0.9, 0.1], [0.7, 0.3]])
    Hardness(largest=0.8, margin=0.6)
    """
    rows = masses(mass, name="mass")
    ordered = np.sort(rows.reshape(-1, rows.shape[-1]), axis=1)[:, ::-1]
    largest = float(ordered[:, 0].mean())
    if ordered.shape[1] == 1:
        return Hardness(largest, float("nan"))
    return Hardness(largest, float((ordered[:, 0] - ordered[:, 1]).mean()))


def balance_value(load: ArrayLike, gates: ArrayLike, *, k: int = 1) -> float:
    """Switch balance loss E · Σ f_e P_e: 1 at uniform for k = 1, k at uniform for top-k (L9).

    `load (E,)` counts choices (summing to k a token), `gates (E,)` is the mean gate.
    """
    share = k * load_share(load)
    return float(len(share) * (share * masses(gates, name="gates", ndim=1)).sum())


def router_z_value(logits: ArrayLike) -> float:
    """Mean over tokens of (log Σ exp)² of the logits `(…, E)`, the square included (L9)."""
    return float((logsumexp(finite(logits, name="logits"), axis=-1) ** 2).mean())


class Success(NamedTuple):
    """Share of wanted choices, and of wanted weight, that found room."""

    choices: float
    weight: float


def capacity_success(weights: ArrayLike, kept: ArrayLike) -> Success:
    """What became of the choices? `weights` of the wanted ones and whether each was kept (L10).

    Soft routing drops nothing: not applicable there.
    """
    wanted, taken = masses(weights, name="weights"), np.asarray(kept, dtype=bool)
    if not wanted.size:
        return Success(float("nan"), float("nan"))
    return Success(float(taken.mean()), float(ratio(wanted[taken].sum(), wanted.sum())))
