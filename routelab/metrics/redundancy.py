"""Do slots look at the same tokens, within an expert and between experts?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from routelab.metrics.arrays import FloatArray, classes_of, finite, ratio
from routelab.metrics.entropy import jensen_shannon_divergence


class Redundancy(NamedTuple):
    """Mean similarity of slot pairs of one expert and of two experts; NaN without such a pair."""

    within: FloatArray
    between: FloatArray


def slot_redundancy(
    dispatch: ArrayLike, expert_of_slot: ArrayLike, *, centred: bool = False
) -> Redundancy:
    """Cosine between the dispatch columns of slots, `(n,)` for images `(n, T, S)` (T5).

    Cosines of non-negative vectors are high by construction; `centred` gives correlations.
    """
    columns = finite(dispatch, name="dispatch", ndim=3).transpose(0, 2, 1)
    return _pairs(cosine_matrix(columns, centred=centred), expert_of_slot)


def slot_parameter_redundancy(parameters: ArrayLike, expert_of_slot: ArrayLike) -> Redundancy:
    """Cosine between slot parameters `(S, d)`: one number within, one between experts (T5)."""
    vectors = finite(parameters, name="parameters", ndim=2)[None]
    return _pairs(cosine_matrix(vectors), expert_of_slot)


def cosine_matrix(vectors: ArrayLike, *, centred: bool = False) -> FloatArray:
    """Cosines between vectors `(…, R, d)`: `(…, R, R)`; a zero vector is NaN."""
    rows = finite(vectors, name="vectors")
    if centred:
        rows = rows - rows.mean(axis=-1, keepdims=True)
    unit = ratio(rows, np.linalg.norm(rows, axis=-1, keepdims=True))
    return unit @ np.swapaxes(unit, -1, -2)


def slot_divergence(dispatch: ArrayLike) -> FloatArray:
    """Jensen–Shannon divergence (bits) between dispatch columns of an image `(T, S)`: `(S, S)`."""
    columns = finite(dispatch, name="dispatch", ndim=2).T
    return jensen_shannon_divergence(
        np.repeat(columns[:, None], len(columns), axis=1),
        np.repeat(columns[None], len(columns), axis=0),
    )


def _pairs(similarity: FloatArray, expert_of_slot: ArrayLike) -> Redundancy:
    """Mean of `(n, S, S)` over pairs of different slots, by whether they share an expert."""
    owner = classes_of(expert_of_slot, name="expert_of_slot")
    same = owner[:, None] == owner[None]
    other = ~np.eye(len(owner), dtype=bool)
    return Redundancy(_masked_mean(similarity, same & other), _masked_mean(similarity, ~same))


def _masked_mean(values: FloatArray, mask: np.ndarray) -> FloatArray:
    """Mean over the masked pairs, pairs with a zero vector left out; NaN where none is left."""
    chosen = values[:, mask]
    defined = np.isfinite(chosen)
    return ratio(np.where(defined, chosen, 0).sum(axis=1), defined.sum(axis=1))
