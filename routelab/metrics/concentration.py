"""How sharp is soft routing? Effective tokens of a slot, mass curves, totals and mixing.

Dispatch and combine are `(n, T, S)`; every number is per image, so that stores can be streamed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from routelab.metrics.arrays import FloatArray, IntArray, masses, ratio
from routelab.metrics.entropy import shannon_entropy
from routelab.metrics.load import load_share

CUMULATION_SLACK = 1e-9
""".6 + .2 + .1 must reach .9, in float32 too."""


def effective_tokens(dispatch: ArrayLike, *, order: int = 1) -> FloatArray:
    """Tokens that a slot really reads, `(n, S)` from 1 to T: exp H, or 1/ΣD² with order 2 (T1).

    Weights are scaled to sum to 1 over the tokens given, as where prefix tokens were left out; a
    slot without weight is NaN.
    """
    weights = masses(dispatch, name="dispatch", ndim=3)
    if order == 1:
        return np.exp(_entropy(weights, axis=1))
    if order == 2:
        return ratio(weights.sum(axis=1) ** 2, (weights**2).sum(axis=1))
    raise ValueError(f"order is 1 or 2, not {order}")


def cumulative_mass(weights: ArrayLike) -> FloatArray:
    """Share held by the 1, 2, … largest along the last axis: a straight line is uniform (T2).

    Tokens of a slot: pass `dispatch.transpose(0, 2, 1)`; slots of a token: `combine` as it is. A
    row without weight is NaN.
    """
    ordered = np.sort(masses(weights, name="weights"), axis=-1)[..., ::-1]
    cumulated = np.cumsum(ordered, axis=-1)
    return ratio(cumulated, cumulated[..., -1:])


def entries_for_mass(weights: ArrayLike, share: float) -> IntArray:
    """Fewest entries along the last axis that hold a share of the mass; 0 without mass (T2).

    >>> int(entries_for_mass([0.6, 0.2, 0.1, 0.1], 0.9))
    3
    """
    if not 0 < share <= 1:
        raise ValueError(f"share must be above 0 and at most 1, not {share}")
    reached = cumulative_mass(weights) >= share - CUMULATION_SLACK
    return np.where(reached.any(axis=-1), reached.argmax(axis=-1) + 1, 0)


def mass_curve_area(weights: ArrayLike) -> FloatArray:
    """Mean of the cumulative curve: (T+1)/(2T) uniform, 1 for a single entry (T2)."""
    return cumulative_mass(weights).mean(axis=-1)


def token_totals(dispatch: ArrayLike, *, normalized: bool = True) -> FloatArray:
    """Weight that a token has in all slots, `(n, T)`: mean 1, or S/T if not normalized (T3).

    Thresholds on raw totals do not carry over to other numbers of slots or tokens.
    """
    weights = masses(dispatch, name="dispatch", ndim=3)
    totals = weights.sum(axis=2)
    return totals * (weights.shape[1] / weights.shape[2]) if normalized else totals


def combine_share(mass: ArrayLike) -> FloatArray:
    """Share of combine weight at each expert over all images and tokens, `(E,)` (T4)."""
    weights = masses(mass, name="mass", ndim=3)
    return load_share(weights.sum(axis=(0, 1)))


def token_effective_experts(mass: ArrayLike) -> FloatArray:
    """Experts that a token really uses, exp H of its mass `(n, T, E)`: `(n, T)` (T6).

    Slots of an expert must have been summed (`expert_mass`). A dropped token is NaN.
    """
    return np.exp(_entropy(masses(mass, name="mass", ndim=3), axis=2))


def uniform_divergence(dispatch: ArrayLike) -> FloatArray:
    """Ln T − H of each slot, `(n, S)` in nats: 0 where a slot reads all tokens alike (T7).

    Read it beside the combine share: near-uniform dispatch alone does not make experts redundant.
    """
    weights = masses(dispatch, name="dispatch", ndim=3)
    return np.maximum(np.log(weights.shape[1]) - _entropy(weights, axis=1), 0)


def mixing_matrix(dispatch: ArrayLike, combine: ArrayLike) -> FloatArray:
    """K Dᵀ, `(n, T, T)`, rows sum to 1: which tokens feed a token through the slots (T9).

    Exact for linear identical experts, otherwise an upper-bound map of influence.
    """
    read, write = masses(dispatch, name="dispatch", ndim=3), masses(combine, name="combine", ndim=3)
    if read.shape != write.shape:
        raise ValueError(f"dispatch {read.shape} and combine {write.shape} differ in shape")
    return write @ read.transpose(0, 2, 1)


def _entropy(weights: FloatArray, *, axis: int) -> FloatArray:
    """Entropy (nats) of weights scaled to sum to 1 along an axis; NaN where there is none."""
    total = weights.sum(axis=axis, keepdims=True)
    some = total > 0
    shares = np.divide(weights, total, out=np.zeros_like(weights), where=some)
    return np.where(some.squeeze(axis), shannon_entropy(shares, axis=axis), np.nan)
