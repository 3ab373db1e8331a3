"""Do slots look at the same tokens, within an expert and between experts?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from routelab.metrics.arrays import FloatArray, classes_of, finite, masses, ratio, row_shares
from routelab.metrics.entropy import jensen_shannon_divergence

ROUNDING = 1e-12
"""Relative: a vector that centring leaves this short was constant."""


class Redundancy(NamedTuple):
    """Mean over slot pairs of one expert and of two experts; NaN without such a pair.

    Chance is what a shuffled slot → expert map gives.
    """

    within: FloatArray
    between: FloatArray

    @property
    def gap(self) -> FloatArray:
        """Within − between: how much more slots of one expert have in common."""
        return self.within - self.between


def slot_redundancy(
    dispatch: ArrayLike, expert_of_slot: ArrayLike, *, centred: bool = False
) -> Redundancy:
    """Cosine between the dispatch columns of slots, `(n,)` for images `(n, T, S)` (T5).

    Cosines of non-negative vectors are high by construction; `centred` gives correlations. A slot
    without weight, or centred and uniform, has no cosine and is in no mean; `zero_vectors` counts
    them.
    """
    columns = finite(dispatch, name="dispatch", ndim=3).transpose(0, 2, 1)
    return _pairs(cosine_matrix(columns, centred=centred), expert_of_slot)


def slot_parameter_redundancy(parameters: ArrayLike, expert_of_slot: ArrayLike) -> Redundancy:
    """Cosine between slot parameters `(S, d)`: one number within, one between experts (T5)."""
    vectors = finite(parameters, name="parameters", ndim=2)[None]
    return _pairs(cosine_matrix(vectors), expert_of_slot)


def slot_divergence_redundancy(dispatch: ArrayLike, expert_of_slot: ArrayLike) -> Redundancy:
    """Jensen–Shannon divergence (bits) between dispatch columns, `(n,)` of `(n, T, S)` (T5).

    A divergence: 0 where slots look at the same tokens, 1 where they share none, so that `gap` is
    negative where slots of one expert are alike.
    """
    weights = masses(dispatch, name="dispatch", ndim=3)
    slots = weights.shape[2]
    matrices = np.array([slot_divergence(image) for image in weights])
    return _pairs(matrices.reshape(len(weights), slots, slots), expert_of_slot)


def zero_vectors(vectors: ArrayLike, *, centred: bool = False) -> NDArray[np.bool_]:
    """Which vectors `(…, d)` have no direction, `(…,)`: their cosines are NaN.

    >>> zero_vectors([[0.0, 0.0], [0.0, 1.0]])
    array([ True, False])
    """
    rows = finite(vectors, name="vectors")
    return np.asarray(~np.any(_directed(rows, centred=centred), axis=-1))


def cosine_matrix(vectors: ArrayLike, *, centred: bool = False) -> FloatArray:
    """Cosines between vectors `(…, R, d)`: `(…, R, R)`; correlations if `centred`.

    A zero vector is NaN, and so is a constant one if `centred`.
    """
    rows = _directed(finite(vectors, name="vectors"), centred=centred)
    unit = ratio(rows, np.linalg.norm(rows, axis=-1, keepdims=True))
    return np.asarray(unit @ np.swapaxes(unit, -1, -2))


def slot_divergence(dispatch: ArrayLike) -> FloatArray:
    """Jensen–Shannon divergence (bits) between dispatch columns of an image `(T, S)`: `(S, S)`.

    Columns are scaled to sum to 1; one without weight is NaN.
    """
    weights = masses(dispatch, name="dispatch", ndim=2)
    read = weights.sum(axis=0) > 0
    columns = row_shares(weights[:, read].T)
    divergence = np.zeros((len(columns), len(columns)))
    for slot in range(len(columns)):  # one row at a time: all pairs at once are S² × T numbers
        later = columns[slot + 1 :]
        divergence[slot, slot + 1 :] = jensen_shannon_divergence(columns[slot], later)
    matrix = np.full((len(read), len(read)), np.nan)
    matrix[np.ix_(read, read)] = divergence + divergence.T
    return matrix


def _directed(rows: FloatArray, *, centred: bool) -> FloatArray:
    """Vectors, centred if asked; what centring leaves of a constant one is 0, not rounding."""
    if not centred:
        return rows
    left = rows - rows.mean(axis=-1, keepdims=True)
    before, after = (np.linalg.norm(part, axis=-1, keepdims=True) for part in (rows, left))
    return np.where(after > ROUNDING * before, left, 0.0)


def _pairs(values: FloatArray, expert_of_slot: ArrayLike) -> Redundancy:
    """Mean of `(n, S, S)` over pairs of different slots, by whether they share an expert."""
    owner = classes_of(expert_of_slot, name="expert_of_slot")
    if len(owner) != values.shape[-1]:
        raise ValueError(f"there are {values.shape[-1]} slots and expert_of_slot has {len(owner)}")
    same = owner[:, None] == owner[None]
    other = ~np.eye(len(owner), dtype=bool)
    return Redundancy(_masked_mean(values, same & other), _masked_mean(values, ~same))


def _masked_mean(values: FloatArray, mask: NDArray[np.bool_]) -> FloatArray:
    """Mean over the masked pairs, pairs with a zero vector left out; NaN where none is left."""
    chosen = values[:, mask]
    defined = np.isfinite(chosen)
    return ratio(np.where(defined, chosen, 0).sum(axis=1), defined.sum(axis=1))
