"""What became of the choices that found no room in an expert's buffer?

Soft routing drops nothing: not applicable there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from routelab.metrics.arrays import FloatArray, classes_of, masses, ratio


class Success(NamedTuple):
    """Share of wanted choices, and of wanted weight, that found room."""

    choices: float
    weight: float


def capacity_success(weights: ArrayLike, kept: ArrayLike) -> Success:
    """How much of what was wanted was done: 1 nothing dropped, 0 all (L10).

    `weights` of the wanted choices, any shape, and whether each was `kept`.

    >>> capacity_success([0.5, 0.25, 0.25], [True, True, False])
    Success(choices=0.6666666666666666, weight=0.75)
    """
    wanted, taken = masses(weights, name="weights"), np.asarray(kept, dtype=bool)
    if taken.shape != wanted.shape:
        raise ValueError(f"kept has shape {taken.shape} and weights {wanted.shape}")
    if not wanted.size:
        return Success(float("nan"), float("nan"))
    return Success(float(taken.mean()), float(ratio(wanted[taken].sum(), wanted.sum())))


def expert_success(expert: ArrayLike, kept: ArrayLike, *, experts: int) -> FloatArray:
    """Share of the choices of each expert that it had room for, `(E,)`; NaN if unwanted (L10).

    >>> expert_success([0, 0, 0, 1], [True, True, False, True], experts=3)
    array([0.66666667, 1.        ,        nan])
    """
    chosen = classes_of(np.ravel(expert), name="expert")
    taken = np.ravel(np.asarray(kept, dtype=bool))
    if len(taken) != len(chosen):
        raise ValueError(f"kept has {len(taken)} choices and expert {len(chosen)}")
    wanted = np.bincount(chosen, minlength=experts)
    return ratio(np.bincount(chosen, taken, minlength=experts), wanted)


def processed_share(kept: ArrayLike, *, at_least: Sequence[int] = (0, 1, 2, 4)) -> FloatArray:
    """Share of tokens that at least j experts took, one number for each j; for expert choice (L10).

    `kept (…, k)` says which of a token's choices were kept; k = E under expert choice.

    >>> processed_share([[True, True], [True, False], [False, False]], at_least=(0, 1, 2))
    array([1.        , 0.66666667, 0.33333333])
    """
    taken = np.asarray(kept, dtype=bool).sum(axis=-1)
    if not taken.size:
        return np.full(len(at_least), np.nan)
    return np.array([(taken >= least).mean() for least in at_least], dtype=np.float64)
