"""Who does the work? From slot weights to token masses, image profiles and class profiles."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from routelab.metrics.arrays import (
    FloatArray,
    IntArray,
    classes_of,
    finite,
    masses,
    ratio,
    same_length,
)

TIE = 1e-12
"""Relative: shares this near to the largest are tied with it, whatever the order of the sum."""


def expert_mass(weights: ArrayLike, expert_of_slot: ArrayLike) -> FloatArray:
    """Slot weights `(…, S)` summed over the slots of each expert: `(…, E)`.

    Sum first, then take entropies or an argmax: over slots they mean something else.

    >>> expert_mass([0.1, 0.2, 0.3, 0.4], [0, 0, 1, 1])
    array([0.3, 0.7])
    """
    array = masses(weights, name="weights")
    owner = classes_of(expert_of_slot, name="expert_of_slot")
    if array.shape[-1] != len(owner):
        raise ValueError(f"weights have {array.shape[-1]} slots and expert_of_slot {len(owner)}")
    indicator = np.zeros((len(owner), owner.max(initial=-1) + 1))
    indicator[np.arange(len(owner)), owner] = 1.0
    return array @ indicator


def choice_mass(expert: ArrayLike, gate: ArrayLike, slot: ArrayLike, *, experts: int) -> FloatArray:
    """Gates `(…, k)` at their experts `(…, E)`, zero where the choice was dropped (slot -1).

    What a dropped choice holds for an expert is not looked at.

    Raises
    ------
    ValueError
        For a choice that was kept, of an expert that is not there.
    """
    place = np.asarray(slot)
    chosen = np.where(place >= 0, np.asarray(expert, dtype=np.int64), 0)
    if chosen.size and not (chosen.min() >= 0 and chosen.max() < experts):
        raise ValueError(f"expert of a kept choice must be from 0 to {experts - 1}")
    kept = np.where(place >= 0, masses(gate, name="gate"), 0.0)
    mass = np.zeros((*chosen.shape[:-1], experts))
    for choice in range(chosen.shape[-1]):
        index = chosen[..., choice, None]
        held = np.take_along_axis(mass, index, axis=-1)
        np.put_along_axis(mass, index, held + kept[..., choice, None], axis=-1)
    return mass


def image_profile(mass: ArrayLike, *, tokens: ArrayLike | None = None) -> FloatArray:
    """Mean over tokens of the token→expert mass `(n, T, E)`: π `(n, E)`.

    Rows sum to 1 where the tokens' masses do. `tokens (n, T)` says which ones count (patches only,
    no padding); what the others hold, NaN included, is not looked at. NaN for an image without any.

    >>> image_profile([[[0.9, 0.1], [0.7, 0.3]]])
    array([[0.8, 0.2]])
    >>> image_profile([[[0.9, 0.1], [0.7, 0.3]]], tokens=[[True, False]])
    array([[0.9, 0.1]])
    """
    rows, counted = counted_tokens(mass, tokens)
    share = ratio(counted, counted.sum(axis=1, keepdims=True))
    return np.asarray(np.einsum("nt,nte->ne", share, rows))


def counted_tokens(mass: ArrayLike, tokens: ArrayLike | None) -> tuple[FloatArray, FloatArray]:
    """Mass `(n, T, E)`, zero for tokens that do not count, and 1 for those that do `(n, T)`."""
    array = np.asarray(mass, dtype=np.float64)
    if array.ndim != 3:
        raise ValueError(f"mass must have 3 axes, not shape {array.shape}")
    if tokens is None:
        return masses(array, name="mass"), np.ones(array.shape[:2])
    counted = np.asarray(tokens, dtype=bool)
    if counted.shape != array.shape[:2]:
        raise ValueError(f"tokens has shape {counted.shape} and mass {array.shape[:2]} tokens")
    return masses(np.where(counted[..., None], array, 0.0), name="mass"), counted.astype(np.float64)


def hard_profile(assignment: ArrayLike, *, experts: int) -> FloatArray:
    """One expert an image `(n,)` as profiles `(n, E)`: what is said of profiles holds of it.

    >>> hard_profile([1, 0], experts=2)
    array([[0., 1.],
           [1., 0.]])
    """
    chosen = classes_of(assignment, name="assignment")
    if chosen.max(initial=-1) >= experts:
        raise ValueError(f"assignment goes up to {chosen.max()}, and there are {experts} experts")
    rows = np.zeros((len(chosen), experts))
    rows[np.arange(len(chosen)), chosen] = 1.0
    return rows


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
    counts = class_counts(numbers, classes=classes)
    return ratio(class_sums(numbers, rows, classes=len(counts)), counts[:, None])


def class_counts(labels: ArrayLike, *, classes: int | None = None) -> IntArray:
    """Images of each class `(C,)`; `classes` adds empty ones at the end, and never cuts."""
    return np.bincount(classes_of(labels), minlength=classes or 0).astype(np.int64)


def class_sums(labels: ArrayLike, values: ArrayLike, *, classes: int) -> FloatArray:
    """Sum of the rows `(n, E)` of each class: `(C, E)`, column by column, without a copy of rows.

    >>> class_sums([0, 0, 1], [[1, 0], [0, 1], [0, 1]], classes=2)
    array([[1., 1.],
           [0., 1.]])
    """
    rows, numbers = finite(values, name="values", ndim=2), classes_of(labels)
    same_length(numbers, rows, names=("labels", "values"))
    if numbers.max(initial=-1) >= classes:
        raise ValueError(f"labels go up to {numbers.max()}, and there are {classes} classes")
    columns = [np.bincount(numbers, column, minlength=classes) for column in rows.T]
    return np.stack(columns, axis=1) if columns else np.zeros((classes, 0))


def image_weights(labels: ArrayLike, *, balanced: bool) -> FloatArray:
    """Weight of each image `(n,)`, summing to 1: 1/n, or 1/(C n_c) so that classes count alike.

    >>> image_weights([0, 0, 1], balanced=True)
    array([0.25, 0.25, 0.5 ])
    """
    numbers = classes_of(labels)
    if not balanced:
        return np.full(len(numbers), 1 / max(len(numbers), 1))
    counts = class_counts(numbers)
    return np.asarray(1 / (counts[numbers] * np.count_nonzero(counts)))


def top_expert(profile: ArrayLike) -> tuple[IntArray, float]:
    """Expert with the largest share of each row, the lowest index among ties; and the tied share.

    >>> top_expert([[0.2, 0.8], [0.5, 0.5]])
    (array([1, 0]), 0.5)
    """
    rows = masses(profile, name="profile", ndim=2)
    if rows.size == 0:
        return np.zeros(0, dtype=np.int64), float("nan")
    top = at_top(rows)
    return top.argmax(axis=1), float((top.sum(axis=1) > 1).mean())


def at_top(values: FloatArray) -> NDArray[np.bool_]:
    """Which entries of the last axis share its largest value, up to rounding; argmax is the lowest.

    Sums of shares that are equal on paper differ in their last bit, by the order of the images.

    >>> at_top(np.array([0.1 + 0.2, 0.3, 0.1]))
    array([ True,  True, False])
    """
    return np.asarray(values >= values.max(axis=-1, keepdims=True) * (1 - TIE))
