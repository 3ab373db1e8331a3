"""Who does the work? From dispatch and combine to token masses, image profiles and class profiles."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from routelab.metrics.arrays import FloatArray, classes_of, masses, ratio, same_length


def expert_mass(weights: ArrayLike, expert_of_slot: ArrayLike) -> FloatArray:
    """Slot weights `(…, S)` summed over the slots of each expert: `(…, E)`.

    Sum first, then take entropies or an argmax: over slots they mean something else.

    >>> expert_mass([0.1, 0.2, 0.3, 0.4], [0, 0, 1, 1])
    array([0.3, 0.7])
    """
    array, owner = (
        masses(weights, name="weights"),
        classes_of(expert_of_slot, name="expert_of_slot"),
    )
    if array.shape[-1] != len(owner):
        raise ValueError(f"weights have {array.shape[-1]} slots and expert_of_slot {len(owner)}")
    indicator = np.zeros((len(owner), owner.max(initial=-1) + 1))
    indicator[np.arange(len(owner)), owner] = 1.0
    return array @ indicator


def choice_mass(expert: ArrayLike, gate: ArrayLike, slot: ArrayLike, *, experts: int) -> FloatArray:
    """Gates `(…, k)` at their experts `(…, E)`, zero where the choice was dropped (slot -1)."""
    chosen, place = np.asarray(expert, dtype=np.int64), np.asarray(slot)
    kept = np.where(place >= 0, masses(gate, name="gate"), 0.0)
    mass = np.zeros((*chosen.shape[:-1], experts))
    for choice in range(chosen.shape[-1]):
        index = chosen[..., choice, None]
        held = np.take_along_axis(mass, index, axis=-1)
        np.put_along_axis(mass, index, held + kept[..., choice, None], axis=-1)
    return mass


def image_profile(mass: ArrayLike) -> FloatArray:
    """Mean over tokens of the token→expert mass `(n, T, E)`: π `(n, E)`.

    Rows sum to 1 where the tokens' masses do. Which tokens (patches, class token) is the caller's
    choice of T.

    >>> image_profile([[[0.9, 0.1], [0.7, 0.3]]])
    array([[0.8, 0.2]])
    """
    return masses(mass, name="mass", ndim=3).mean(axis=1)


def class_profile(
    labels: ArrayLike, profile: ArrayLike, *, classes: int | None = None
) -> FloatArray:
    """Mean image profile of each class: R `(C, E)`; an empty class is a NaN row (CC1).

    >>> class_profile([0, 0, 1], [[1, 0], [0, 1], [0, 1]], classes=3)
    array([[0.5, 0.5],
           [0. , 1. ],
           [nan, nan]])
    """
    rows, numbers = masses(profile, name="profile", ndim=2), classes_of(labels)
    same_length(numbers, rows, names=("labels", "profile"))
    count = max(classes or 0, int(numbers.max(initial=-1)) + 1)
    sums = class_sums(numbers, rows, classes=count)
    return ratio(sums, np.bincount(numbers, minlength=count)[:, None])


def class_sums(labels: ArrayLike, values: ArrayLike, *, classes: int) -> FloatArray:
    """Sum of the rows `(n, E)` of each class: `(C, E)`, column by column, without a copy of rows."""
    rows, numbers = np.asarray(values, dtype=np.float64), classes_of(labels)
    columns = [np.bincount(numbers, column, minlength=classes) for column in rows.T]
    return np.stack(columns, axis=1) if columns else np.zeros((classes, 0))


def top_expert(profile: ArrayLike) -> tuple[np.ndarray, float]:
    """Expert with the largest share of each row, the lowest index among ties; and the tied share.

    >>> top_expert([[0.2, 0.8], [0.5, 0.5]])
    (array([1, 0]), 0.5)
    """
    rows = masses(profile, name="profile", ndim=2)
    if rows.size == 0:
        return np.zeros(0, dtype=np.int64), float("nan")
    tied = (rows == rows.max(axis=1, keepdims=True)).sum(axis=1) > 1
    return rows.argmax(axis=1), float(tied.mean())
