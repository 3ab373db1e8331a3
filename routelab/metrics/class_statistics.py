"""What do sums of profiles by class say of class and expert, for many labellings at once?

Every class statistic follows from the sums `(…, C, E)` over the images of each class, the class
sizes `(C,)`, and two totals that no labelling changes. One formula therefore serves the observed
labels and a thousand shuffles of them, and a shuffle costs one sum.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from routelab.metrics.arrays import FloatArray, IntArray, ratio


def class_max_shares(sums: FloatArray, counts: IntArray, *, smallest_class: int = 2) -> FloatArray:
    """Largest share of each class's mean profile, `(…, C)`; NaN for a class that is too small."""
    enough = np.where(counts >= smallest_class, counts, 0)
    return ratio(sums.max(axis=-1), enough)


def mean_max_share(sums: FloatArray, counts: IntArray, *, smallest_class: int = 2) -> FloatArray:
    """Mean of the largest shares over the classes that are large enough, `(…)` (CC2)."""
    largest = class_max_shares(sums, counts, smallest_class=smallest_class)
    defined = counts >= smallest_class
    if not defined.any():
        return np.full(sums.shape[:-2], np.nan)
    return np.asarray(largest[..., defined].mean(axis=-1))


def pair_agreements(
    sums: FloatArray, size: FloatArray, own: float, own_pairs: float
) -> tuple[FloatArray, FloatArray]:
    """Mean ⟨π_i, π_j⟩ over pairs within a class and over pairs of two classes, each `(…)` (CC3).

    An image of weight w makes w_i w_j pairs with another and none with itself, so `own` Σ w²⟨π, π⟩
    and `own_pairs` Σ w² are taken out; `sums` are Σ w π and `size (C,)` Σ w.
    """
    same = np.einsum("...ce,...ce->...", sums, sums)
    everything = sums.sum(axis=-2)
    total = np.einsum("...e,...e->...", everything, everything)
    pairs_same = float((size**2).sum()) - own_pairs
    pairs_other = float(size.sum() ** 2 - (size**2).sum())
    return ratio(same - own, pairs_same), ratio(total - same, pairs_other)


def mass_information(table: FloatArray) -> FloatArray:
    """Mutual information (nats) of rows and columns of tables of mass `(…, C, E)` (CC4, I1).

    Of sums of profiles it is the class term H(p̄) − Σ n_c/n H(R_c) of the information budget.
    """
    total = table.sum(axis=(-2, -1), keepdims=True)
    joint = ratio(table, total)
    margins = sum(_negative_entropy(joint.sum(axis=axis)).sum(axis=-1) for axis in (-2, -1))
    cells = _negative_entropy(joint).sum(axis=(-2, -1))
    return np.asarray(np.maximum(cells - margins, 0.0))


def between_ratio(sums: FloatArray, counts: IntArray, total: float) -> FloatArray:
    """SS_between / SS_total of profiles, `(…)`, where `total` = Σ_i ‖π_i − p̄‖² (CC6)."""
    used = counts > 0
    size = counts[used].astype(np.float64)
    centre = sums.sum(axis=-2, keepdims=True) / max(size.sum(), 1.0)
    away = sums[..., used, :] / size[:, None] - centre
    return ratio(np.einsum("c,...ce,...ce->...", size, away, away), total)


def scatter(rows: FloatArray, *, at_once: int = 2**16) -> float:
    """Σ_i ‖π_i − p̄‖² in two passes without a centred copy; 0 where only rounding is left."""
    centre = rows.mean(axis=0)
    total = 0.0
    for start in range(0, len(rows), at_once):
        total += float(((rows[start : start + at_once] - centre) ** 2).sum())
    rounding = 1e-24 * float(centre @ centre) * len(rows)
    return total if total > rounding else 0.0


def _negative_entropy(values: FloatArray) -> NDArray[np.float64]:
    return np.asarray(xlogy(values, values))
