"""Which experts serve the same tokens? All pairs of a token's choices, never only neighbours."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from routelab.metrics.arrays import FloatArray, masses, ratio


def coactivation_counts(selected: ArrayLike) -> FloatArray:
    """Tokens that both experts took, `(E, E)`, of `selected (…, E)` 0/1; load on the diagonal.

    Every pair of a token's k choices counts (P1). Soft routing: pass the mass, and read Σ m_i m_j.
    """
    rows = masses(selected, name="selected")
    rows = rows.reshape(-1, rows.shape[-1])
    return np.asarray(rows.T @ rows)


def coactivation_matrix(together: ArrayLike, work: ArrayLike) -> FloatArray:
    """N_ij / N_i: of the tokens of expert i, the share that j serves too, `(E, E)` (P1).

    `together (E, E)` as `coactivation_counts` gives it, `work (E,)` the tokens (or mass) of each
    expert. The diagonal is undefined (NaN), and so is the row of a dead expert. All is NaN where no
    token has two experts, as for k = 1. Chance is (k−1)/(E−1) for top-k.
    """
    pairs = _square(together)
    return _off_diagonal(ratio(pairs, _work(work, pairs)[:, None]), pairs)


def coactivation_lift(together: ArrayLike, work: ArrayLike, tokens: float) -> FloatArray:
    """N_ij · M / (N_i N_j), `(E, E)`: 1 if experts were chosen independently (P1).

    `tokens` is M, all tokens that were routed. NaN as in `coactivation_matrix`.
    """
    pairs = _square(together)
    load = _work(work, pairs)
    return _off_diagonal(ratio(pairs * tokens, np.outer(load, load)), pairs)


def coactivation_jaccard(together: ArrayLike) -> FloatArray:
    """N_ij / (N_i + N_j − N_ij) of counts, `(E, E)`, 0 to 1 (P1).

    Counts of top-k only: the diagonal of soft products is not a load. NaN as in
    `coactivation_matrix`, and between two dead experts.
    """
    pairs = _square(together)
    load = pairs.diagonal()
    return _off_diagonal(ratio(pairs, load[:, None] + load[None] - pairs), pairs)


def coactivation_chance(experts: int, k: int) -> float:
    """(k−1)/(E−1): co-activation if the other k−1 choices were random; NaN for k = 1 (P1)."""
    if k < 2 or experts < 2:
        return float("nan")
    return (k - 1) / (experts - 1)


def _off_diagonal(matrix: FloatArray, pairs: FloatArray) -> FloatArray:
    """NaN on the diagonal, and everywhere if no pair of different experts ever met."""
    met = pairs.sum() > pairs.trace()
    np.fill_diagonal(matrix, np.nan)
    return matrix if met else np.full_like(matrix, np.nan)


def _work(work: ArrayLike, pairs: FloatArray) -> FloatArray:
    load = masses(work, name="work", ndim=1)
    if len(load) != len(pairs):
        raise ValueError(f"work has {len(load)} experts and together {len(pairs)}")
    return load


def _square(together: ArrayLike) -> FloatArray:
    pairs = masses(together, name="together", ndim=2)
    if pairs.shape[0] != pairs.shape[1]:
        raise ValueError(f"together must be square, not {pairs.shape}")
    return pairs
