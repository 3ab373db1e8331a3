"""Do two checkpoints, or two views of an image, route alike?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from routelab.metrics.arrays import FloatArray, IntArray, classes_of, masses, ratio

NAN = float("nan")


class Saturation(NamedTuple):
    """Mean overlap of two choices a token, its chance k/E, the adjusted overlap, and the IoU."""

    overlap: float
    chance: float
    adjusted: float
    iou: float


def router_saturation(first: ArrayLike, second: ArrayLike, *, experts: int) -> Saturation:
    """Do two checkpoints choose the same k experts? Choices `(n, k)` of each (P2, OLMoE).

    For top-k only: under soft routing every expert has weight, and a set overlap is always 1; take
    `weighted_jaccard`. `adjusted` is (overlap − k/E)/(1 − k/E), NaN for k = E.
    """
    a, b = (_choices(part, name, experts) for part, name in ((first, "first"), (second, "second")))
    if a.shape != b.shape:
        raise ValueError(f"choices must be two arrays (n, k), not {a.shape} and {b.shape}")
    k = a.shape[1]
    if not len(a):
        return Saturation(NAN, k / experts, NAN, NAN)
    shared = (a[:, :, None] == b[:, None]).sum(axis=(1, 2))
    overlap, chance = float((shared / k).mean()), k / experts
    adjusted = float(ratio(overlap - chance, 1 - chance))
    return Saturation(overlap, chance, adjusted, float((shared / (2 * k - shared)).mean()))


def weighted_jaccard(first: ArrayLike, second: ArrayLike) -> FloatArray:
    """Σ min / Σ max along the last axis, 0 to 1: overlap of two soft routings (P3).

    NaN where neither has weight.
    """
    a, b = masses(first, name="first"), masses(second, name="second")
    if a.shape != b.shape:
        raise ValueError(f"first {a.shape} and second {b.shape} differ in shape")
    return ratio(np.minimum(a, b).sum(axis=-1), np.maximum(a, b).sum(axis=-1))


def _choices(choices: ArrayLike, name: str, experts: int) -> IntArray:
    """Sets of k different experts `(n, k)`."""
    shape = np.shape(choices)
    if len(shape) != 2 or not shape[1]:
        raise ValueError(f"{name} must hold k choices a token (n, k), not shape {shape}")
    rows = classes_of(np.ravel(choices), name=name).reshape(shape)
    if rows.size and rows.max() >= experts:
        raise ValueError(f"{name} must choose experts from 0 to {experts - 1}")
    ordered = np.sort(rows, axis=1)
    if (ordered[:, 1:] == ordered[:, :-1]).any():
        raise ValueError(f"{name} chooses an expert twice for one token")
    return rows
