"""Which experts follow each other through the layers? Transitions, paths, their number."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from routelab.metrics.arrays import FloatArray, IntArray, classes_of, ratio
from routelab.metrics.association import contingency_table
from routelab.metrics.entropy import shannon_entropy


def transition_matrix(
    first: ArrayLike, second: ArrayLike, *, experts: tuple[int, int] | None = None
) -> FloatArray:
    """P(expert of the next layer | expert of this one), `(E1, E2)`, rows sum to 1 (P4).

    `first` and `second` hold one expert an image (or token) in each layer, `(n,)`. An expert that
    nothing passed is a NaN row.

    >>> transition_matrix([0, 0, 1, 1], [0, 0, 1, 0])
    array([[1. , 0. ],
           [0.5, 0.5]])
    """
    height, width = experts or (None, None)
    counts = contingency_table(first, second, classes=height, experts=width)
    return ratio(counts, counts.sum(axis=1, keepdims=True))


def next_expert_accuracy(first: ArrayLike, second: ArrayLike) -> float:
    """How often the commonest successor is right: top-1 predictability of the next layer (P4)."""
    counts = contingency_table(first, second)
    return float(ratio(counts.max(axis=1, initial=0).sum(), counts.sum()))


def path_numbers(paths: ArrayLike) -> IntArray:
    """A number for each distinct path, `(n,)`, of paths `(n, L)` of one expert a layer (P5)."""
    rows = np.asarray(paths, dtype=np.int64)
    if rows.ndim != 2:
        raise ValueError(f"paths must have 2 axes (images, layers), not shape {rows.shape}")
    if not len(rows):
        return np.zeros(0, dtype=np.int64)
    return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


def path_entropy(paths: ArrayLike) -> float:
    """Entropy of the paths `(n, L)` in nats; its exponential counts the effective paths (P5)."""
    numbers = path_numbers(paths)
    if not len(numbers):
        return float("nan")
    return float(shannon_entropy(np.bincount(numbers) / len(numbers)))


def path_coverage(paths: ArrayLike, most: int) -> float:
    """Share of images on the `most` commonest paths (P5)."""
    numbers = path_numbers(paths)
    counts = np.sort(np.bincount(numbers))[::-1]
    return float(ratio(counts[:most].sum(), len(numbers)))


def nominal_degree_log(experts: int, k: int, layers: int) -> float:
    """L · ln C(E, k): ln of the expert combinations that an image can take (P6, ViMoE).

    >>> round(math.exp(nominal_degree_log(8, 1, 2)))
    64
    """
    return layers * math.log(math.comb(experts, k))


class RoutingDegree(NamedTuple):
    """Logarithms of the nominal and effective number of paths; their quotient (NaN if 0/0)."""

    nominal_log: float
    effective_log: float
    utilisation: float


def routing_degree(paths: ArrayLike, *, experts: int, k: int = 1) -> RoutingDegree:
    """How many of the possible paths are used (P6)? Effective paths are capped by the images."""
    rows = np.asarray(paths)
    nominal, effective = nominal_degree_log(experts, k, rows.shape[1]), path_entropy(rows)
    return RoutingDegree(nominal, effective, float(ratio(effective, nominal)))


def rarefied_paths(paths: ArrayLike, size: int, *, draws: int = 100, seed: int = 0) -> float:
    """Effective paths of random subsets of `size` images: comparable between stores (P6)."""
    numbers = path_numbers(paths)
    if not 0 < size <= len(numbers):
        raise ValueError(f"size must be from 1 to {len(numbers)} images, not {size}")
    generator = np.random.default_rng(seed)
    entropies = []
    for _ in range(draws):
        drawn = generator.choice(numbers, size, replace=False)
        entropies.append(float(shannon_entropy(np.bincount(drawn) / size)))
    return float(np.mean(np.exp(entropies)))


class Saturation(NamedTuple):
    """Mean overlap of two choices a token, its chance k/E, the adjusted overlap, and the IoU."""

    overlap: float
    chance: float
    adjusted: float
    iou: float


def router_saturation(first: ArrayLike, second: ArrayLike, *, experts: int) -> Saturation:
    """Do two checkpoints choose the same k experts? Choices `(n, k)` of each (P2).

    For top-k only: under soft routing every expert has weight, and a set overlap is always 1.
    """
    a, b = np.asarray(first, dtype=np.int64), np.asarray(second, dtype=np.int64)
    if a.shape != b.shape or a.ndim != 2:
        raise ValueError(f"choices must be two arrays (n, k), not {a.shape} and {b.shape}")
    k = a.shape[1]
    shared = (a[:, :, None] == b[:, None]).sum(axis=(1, 2))
    overlap, chance = float((shared / k).mean()), k / experts
    adjusted = float(ratio(overlap - chance, 1 - chance))
    return Saturation(overlap, chance, adjusted, float((shared / (2 * k - shared)).mean()))


def weighted_jaccard(first: ArrayLike, second: ArrayLike) -> FloatArray:
    """Σ min / Σ max along the last axis, 0 to 1: overlap of two soft routings (P3)."""
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    return ratio(np.minimum(a, b).sum(axis=-1), np.maximum(a, b).sum(axis=-1))


def top_paths(assignments: list[NDArray[np.int64]]) -> IntArray:
    """Paths `(n, L)` from one expert an image in each layer, given as `L` arrays `(n,)`."""
    return np.stack([classes_of(column, name="assignments") for column in assignments], axis=1)
