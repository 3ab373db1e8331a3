"""What does an expert add to the output? Not its combine mass: output size counts too."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from routelab.metrics.arrays import FloatArray, finite, ratio

CANCELLED = 1e-12
"""Relative: a sum this small beside its terms is 0, and what is left of it is rounding."""


class Contribution(NamedTuple):
    """Share by norm, in [0, 1]; and by projection on the sum, signed; both add up to 1."""

    norm: FloatArray
    projection: FloatArray


def contribution_share(outputs: ArrayLike) -> Contribution:
    """Shares of what each expert adds, `(…, E)` of terms `v (…, E, d)` (T8).

    v[t, e] = Σ_{s∈e} K[t, s] f_e(x_s). A projection share outside [0, 1] means that experts cancel;
    it is kept. NaN where all terms, or their sum, are 0 up to rounding.
    """
    terms = finite(outputs, name="outputs")
    if terms.ndim < 2:
        raise ValueError(f"outputs must have axes (…, experts, width), not shape {terms.shape}")
    norms = np.linalg.norm(terms, axis=-1)
    total = terms.sum(axis=-2, keepdims=True)
    along, length = (terms * total).sum(axis=-1), np.linalg.norm(total, axis=-1)
    whole = norms.sum(axis=-1, keepdims=True)
    length = np.where(length > CANCELLED * whole, length, 0)
    return Contribution(ratio(norms, whole), ratio(along, length**2))


def branch_share(branch: ArrayLike, rest: ArrayLike) -> FloatArray:
    """‖branch‖ / (‖branch‖ + ‖rest‖) along the last axis, as of shared against routed."""
    first = np.linalg.norm(finite(branch, name="branch"), axis=-1)
    second = np.linalg.norm(finite(rest, name="rest"), axis=-1)
    if first.shape != second.shape:
        raise ValueError(f"branch {first.shape} and rest {second.shape} differ in tokens")
    return ratio(first, first + second)
