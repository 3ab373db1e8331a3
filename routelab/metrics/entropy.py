"""How spread out is a distribution? Shannon entropy, in nats unless a base is given."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import rel_entr, xlogy

from routelab.metrics.arrays import FloatArray, masses


def shannon_entropy(shares: ArrayLike, *, axis: int = -1, base: float | None = None) -> FloatArray:
    """Shannon entropy −Σ p ln p along an axis, with 0 · ln 0 = 0; the shares must sum to 1.

    >>> float(shannon_entropy([0.5, 0.5], base=2))
    1.0
    """
    values = -xlogy(*(2 * (masses(shares, name="shares"),))).sum(axis=axis)
    return np.asarray(np.maximum(values, 0) / (np.log(base) if base else 1.0))


def jensen_shannon_divergence(p: ArrayLike, q: ArrayLike, *, axis: int = -1) -> FloatArray:
    """Jensen–Shannon divergence in bits, from 0 (equal) to 1 (disjoint supports).

    >>> float(jensen_shannon_divergence([1, 0], [0, 1]))
    1.0
    """
    first, second = masses(p, name="p"), masses(q, name="q")
    middle = shannon_entropy((first + second) / 2, axis=axis, base=2)
    ends = shannon_entropy(first, axis=axis, base=2) + shannon_entropy(second, axis=axis, base=2)
    return np.clip(middle - ends / 2, 0, 1)


def kullback_leibler_divergence(p: ArrayLike, q: ArrayLike, *, axis: int = -1) -> FloatArray:
    """Kullback–Leibler divergence Σ p log2(p/q) in bits; infinite where q lacks what p has."""
    first, second = masses(p, name="p"), masses(q, name="q")
    return np.asarray(rel_entr(first, second).sum(axis=axis) / np.log(2))
