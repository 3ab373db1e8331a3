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
    return rows.T @ rows


def coactivation_matrix(together: ArrayLike, work: ArrayLike) -> FloatArray:
    """N_ij / N_i: of the tokens of expert i, the share that j serves too, `(E, E)` (P1).

    `together (E, E)` as `coactivation_counts` gives it, `work (E,)` the tokens (or mass) of each
    expert. The diagonal is undefined (NaN), and so is the row of a dead expert. Chance is
    (k−1)/(E−1) for top-k.
    """
    pairs = _square(together)
    matrix = ratio(pairs, masses(work, name="work", ndim=1)[:, None])
    np.fill_diagonal(matrix, np.nan)
    return matrix


def coactivation_lift(together: ArrayLike, work: ArrayLike, tokens: float) -> FloatArray:
    """N_ij · M / (N_i N_j), `(E, E)`: 1 if experts were chosen independently; NaN diagonal (P1)."""
    pairs, load = _square(together), masses(work, name="work", ndim=1)
    matrix = ratio(pairs * tokens, np.outer(load, load))
    np.fill_diagonal(matrix, np.nan)
    return matrix


def coactivation_jaccard(together: ArrayLike) -> FloatArray:
    """N_ij / (N_i + N_j − N_ij) of counts, `(E, E)`, 0 to 1; NaN diagonal and dead pairs (P1)."""
    pairs = _square(together)
    load = pairs.diagonal()
    matrix = ratio(pairs, load[:, None] + load[None] - pairs)
    np.fill_diagonal(matrix, np.nan)
    return matrix


def coactivation_chance(experts: int, k: int) -> float:
    """(k−1)/(E−1): co-activation if the other k−1 choices were random; NaN for k = 1 (P1)."""
    if k < 2 or experts < 2:
        return float("nan")
    return (k - 1) / (experts - 1)


def _square(together: ArrayLike) -> FloatArray:
    pairs = masses(together, name="together", ndim=2)
    if pairs.shape[0] != pairs.shape[1]:
        raise ValueError(f"together must be square, not {pairs.shape}")
    return pairs
