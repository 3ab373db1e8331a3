"""How are things drawn without replacement, in proportion to their weights, many times at once?"""

from __future__ import annotations

import numpy as np

from routelab.recycling.selection.layer import FloatArray, Indices

FLOOR = 1e-12
"""Relative weight of what weighs nothing: drawn only when nothing else is left."""


def weighted_draws(
    weights: FloatArray, size: int, draws: int, generator: np.random.Generator
) -> Indices:
    """`draws` samples of `size` indices without replacement, `(draws, size)`, in order of drawing.

    The smallest of Exp(1)/w are the same in law as one draw after the other in proportion to the
    weights that are left (Efraimidis and Spirakis 2006). Equal weights give plain random subsets.

    Raises
    ------
    ValueError
        Negative or non-finite weights, or more wanted than there are.
    """
    weights = np.asarray(weights, dtype=np.float64)
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError("weights must be finite and not negative")
    if size > len(weights):
        raise ValueError(f"{size} of {len(weights)} cannot be drawn without replacement")
    top = weights.max(initial=0.0)
    floored = np.maximum(weights, top * FLOOR) if top > 0 else np.ones_like(weights)
    waiting = generator.standard_exponential((draws, len(weights))) / floored
    return np.argsort(waiting, axis=1, kind="stable")[:, :size].astype(np.int64)
