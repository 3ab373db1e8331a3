"""Who is used, and how evenly? Load over experts, read from combine mass and never from dispatch.

Dispatch gives every slot the same total by construction, so a load made of it is even whatever the
router does. Every function takes the load `(E,)` of one layer; an expert that was pruned away is
left out by the caller, a dead one stays in as 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from routelab.metrics.arrays import FloatArray, masses, ratio
from routelab.metrics.entropy import shannon_entropy


def load_share(load: ArrayLike) -> FloatArray:
    """Share of the load `(E,)` at each expert, sums to 1; NaN where nothing was routed (L1).

    `load` may be token counts, summed gates (importance) or summed combine mass.

    >>> load_share([3, 2, 2, 1])
    array([0.375, 0.25 , 0.25 , 0.125])
    """
    values = _expert_load(load)
    return ratio(values, values.sum())


def cv_squared(load: ArrayLike) -> float:
    """Squared coefficient of variation var/mean² of a load `(E,)`: 0 even, E−1 collapsed (L2).

    V-MoE's importance loss is this of summed gates. Population variance; NaN without load.

    >>> cv_squared([1, 1, 1, 1]), cv_squared([4, 0, 0, 0])
    (0.0, 3.0)
    """
    share = load_share(load)
    return float(len(share) ** 2 * share.var())


def max_violation(load: ArrayLike) -> float:
    """max/mean − 1 of a load `(E,)`: 0 even, E−1 collapsed (L3).

    >>> max_violation([1, 1, 1, 1]), max_violation([4, 0, 0, 0])
    (0.0, 3.0)
    """
    values = _expert_load(load)
    return float(ratio(values.max(), values.mean())) - 1


def min_violation(load: ArrayLike) -> float:
    """min/mean − 1 of a load `(E,)`: 0 even, −1 with a dead expert (L3).

    >>> min_violation([1, 1, 1, 1]), min_violation([4, 0, 0, 0])
    (0.0, -1.0)
    """
    values = _expert_load(load)
    return float(ratio(values.min(), values.mean())) - 1


def load_entropy(load: ArrayLike, *, normalized: bool = False) -> float:
    """Entropy of the load shares in nats, or divided by ln E: 1 even, 0 collapsed (L4).

    The entropy of the average distribution, not the average of the tokens' entropies
    (`gate_entropies`). NaN without load, and normalised with one expert (0/0).

    >>> load_entropy([1, 1, 1, 1], normalized=True), load_entropy([4, 0, 0, 0], normalized=True)
    (1.0, 0.0)
    """
    share = load_share(load)
    if np.isnan(share).any() or (normalized and len(share) == 1):
        return float("nan")
    return float(shannon_entropy(share) / (np.log(len(share)) if normalized else 1.0))


def load_divergence(load: ArrayLike) -> float:
    """Kullback–Leibler divergence of the load from uniform, ln E − H, in nats: 0 even (L4)."""
    return max(float(np.log(len(_expert_load(load))) - load_entropy(load)), 0.0)


def effective_experts(load: ArrayLike, *, order: int = 1) -> float:
    """Number of equally used experts with the same diversity, from 1 to E (L5).

    `order` 1 is exp H (Hill number N1), 2 is 1/Σ f² (N2, at most N1).

    >>> effective_experts([4, 4, 0, 0]), effective_experts([4, 4, 0, 0], order=2)
    (2.0, 2.0)
    """
    if order not in (1, 2):
        raise ValueError(f"order is 1 or 2, not {order}")
    share = load_share(load)
    if np.isnan(share).any():
        return float("nan")
    return float(np.exp(shannon_entropy(share)) if order == 1 else 1 / (share**2).sum())


def gini(load: ArrayLike, *, normalized: bool = False) -> float:
    """Gini coefficient of a load `(E,)`: 0 even, 1−1/E collapsed, or 1 if normalized (L6).

    >>> gini([1, 1, 1, 1]), gini([4, 0, 0, 0]), gini([4, 0, 0, 0], normalized=True)
    (0.0, 0.75, 1.0)
    """
    values = np.sort(_expert_load(load))
    experts = len(values)
    if values.sum() == 0 or (normalized and experts == 1):
        return float("nan")
    rank = np.arange(1, experts + 1)
    index = ((2 * rank - experts - 1) * values).sum() / (experts * values.sum())
    return float(index * experts / (experts - 1) if normalized else index)


def dead_experts(load: ArrayLike) -> NDArray[np.bool_]:
    """Experts `(E,)` with no load at all over the evaluation set (L7).

    Read it beside `unseen_probability`: a rare expert may be unseen by chance.
    """
    return _expert_load(load) == 0


def cold_experts(load: ArrayLike, *, alpha: float = 0.1) -> NDArray[np.bool_]:
    """Experts `(E,)` with a share below α/E; dead ones are cold too (L7).

    The limit scales with 1/E: a fixed one would call every expert of a wide uniform layer dead.

    >>> cold_experts(np.ones(1182)).any()
    np.False_
    """
    share = load_share(load)
    return np.asarray(np.nan_to_num(share) < alpha / len(share))


def unseen_probability(share: ArrayLike, *, tokens: int) -> FloatArray:
    """Probability (1−q)^M that an expert of true share q is unseen in M routed tokens (L7).

    >>> round(float(unseen_probability(0.001, tokens=1000)), 4)
    0.3677
    """
    shares = masses(share, name="share")
    if shares.size and shares.max() > 1:
        raise ValueError("share is at most 1; load_share makes shares of counts")
    return np.asarray((1 - shares) ** tokens)


def _expert_load(load: ArrayLike) -> FloatArray:
    """The load of one expert or more."""
    values = masses(load, name="load", ndim=1)
    if not values.size:
        raise ValueError("load holds no expert")
    return values
