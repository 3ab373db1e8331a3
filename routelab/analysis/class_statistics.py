"""Which numbers say how far routing follows class, read from sums by class?

The definitions are the catalogue's; on sums, a permutation of a million labels costs one sum.
All take any number of draws at once and give one number a draw; tests hold them to
`routelab.metrics` image by image.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from routelab.analysis.class_sums import Sums

FloatArray = NDArray[np.float64]


def class_profile(sums: Sums) -> FloatArray:
    """Mean profile of each class (CC1), (draws, C, E); NaN rows for classes without images."""
    return _ratio(sums.mass, sums.counts[..., None])


def max_share(sums: Sums) -> FloatArray:
    """Mean over classes of two images or more of the class profile's largest share (CC2)."""
    enough = sums.counts >= 2
    largest = np.where(enough, sums.mass.max(axis=-1), 0.0) / np.maximum(sums.counts, 1)
    return _ratio(largest.sum(axis=-1), enough.sum(axis=-1))


def information(table: FloatArray) -> FloatArray:
    """Mutual information of rows and columns of tables of counts or of mass, nats (CC4, I1).

    Of sums of profiles by class it is the class term of the budget, H(p̄) − Σ n_c/n H(R_c); of a
    contingency table of hard assignments it is I(Y; A). Tables are (draws, C, E).
    """
    n = table.sum(axis=(-2, -1))
    cells = _x_log_x(table).sum(axis=(-2, -1))
    margins = sum(_x_log_x(table.sum(axis=axis)).sum(axis=-1) for axis in (-2, -1))
    return np.maximum(_ratio(cells - margins + _x_log_x(n), n), 0.0)


def contrast(sums: Sums) -> FloatArray:
    """Same-class minus different-class agreement ⟨π_i, π_j⟩, without pairs of one image (CC3)."""
    by_class = np.einsum("...ce,...ce->...c", sums.mass, sums.mass)
    everything = sums.mass.sum(axis=-2)
    total = np.einsum("...e,...e->...", everything, everything)
    within_pairs = (sums.counts**2 - sums.self_pairs).sum(axis=-1)
    between_pairs = sums.counts.sum(axis=-1) ** 2 - (sums.counts**2).sum(axis=-1)
    within = _ratio((by_class - sums.self_norms).sum(axis=-1), within_pairs)
    return within - _ratio(total - by_class.sum(axis=-1), between_pairs)


def eta_squared(sums: Sums) -> FloatArray:
    """Share of the profiles' variance that lies between classes (CC6); NaN without variance."""
    everything = sums.mass.sum(axis=-2)
    n = sums.counts.sum(axis=-1)
    centre = _ratio(np.einsum("...e,...e->...", everything, everything), n)
    norms = sums.norms.sum(axis=-1)
    squares = np.einsum("...ce,...ce->...c", sums.mass, sums.mass)
    between = (squares / np.maximum(sums.counts, 1)).sum(axis=-1) - centre
    total = norms - centre
    return _ratio(between, np.where(total > 1e-12 * norms, total, 0.0))


def _x_log_x(values: FloatArray) -> FloatArray:
    return np.asarray(xlogy(values, values))


def _ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Division that gives NaN where the denominator is not positive."""
    shape = np.broadcast_shapes(np.shape(numerator), np.shape(denominator))
    positive = np.broadcast_to(np.asarray(denominator) > 0, shape)
    return np.divide(numerator, denominator, out=np.full(shape, np.nan), where=positive)
