"""What does an expert add to the output? Not its combine mass: output size counts too."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from routelab.metrics.arrays import FloatArray, finite, ratio


class Contribution(NamedTuple):
    """Share by norm, in [0, 1]; and by projection on the sum, signed; both add up to 1."""

    norm: FloatArray
    projection: FloatArray


def contribution_share(outputs: ArrayLike) -> Contribution:
    """Shares of what each expert adds, `(…, E)` of terms `v (…, E, d)` (T8).

    v[t, e] = Σ_{s∈e} K[t, s] f_e(x_s). A projection share outside [0, 1] means that experts cancel;
    it is kept. NaN where all terms, or their sum, are 0.
    """
    terms = finite(outputs, name="outputs")
    norms = np.linalg.norm(terms, axis=-1)
    total = terms.sum(axis=-2, keepdims=True)
    along = (terms * total).sum(axis=-1)
    return Contribution(
        ratio(norms, norms.sum(axis=-1, keepdims=True)), ratio(along, (total**2).sum(axis=-1))
    )


def branch_share(branch: ArrayLike, rest: ArrayLike) -> FloatArray:
    """‖branch‖ / (‖branch‖ + ‖rest‖) along the last axis, as of shared against routed."""
    first = np.linalg.norm(finite(branch, name="branch"), axis=-1)
    second = np.linalg.norm(finite(rest, name="rest"), axis=-1)
    return ratio(first, first + second)
