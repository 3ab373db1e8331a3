"""Which experts follow each other through the layers? Transitions, paths, their number."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from routelab.metrics.arrays import FloatArray, IntArray, classes_of, ratio, same_length
from routelab.metrics.association import contingency_table
from routelab.metrics.entropy import shannon_entropy


def transition_matrix(
    first: ArrayLike, second: ArrayLike, *, experts: tuple[int, int] | None = None
) -> FloatArray:
    """P(expert of the next layer | expert of this one), `(E1, E2)`, rows sum to 1 (P4).

    `first` and `second` hold one expert an image (or token) in each layer, `(n,)`, or k choices a
    token, `(n, k)`, of which all pairs count, never only those of one rank; −1 is a dropped choice.
    An expert that nothing passed is a NaN row. Chance is the share of each expert of `second`.

    >>> transition_matrix([0, 0, 1, 1], [0, 0, 1, 0])
    array([[1. , 0. ],
           [0.5, 0.5]])
    """
    height, width = experts or (0, 0)
    if np.ndim(first) == 2 and np.ndim(second) == 2:
        counts = _choice_pairs(np.asarray(first), np.asarray(second), height, width)
    else:
        counts = contingency_table(first, second, classes=height, experts=width)
    return ratio(counts, counts.sum(axis=1, keepdims=True))


def _choice_pairs(
    first: NDArray[np.int64], second: NDArray[np.int64], height: int, width: int
) -> FloatArray:
    """All k1 · k2 pairs of a token's choices in two layers, summed over tokens: `(E1, E2)`."""
    same_length(first, second, names=("first", "second"))
    sides = [
        classes_of(np.ravel(part + 1), name=name).reshape(part.shape)  # a dropped choice is row 0
        for part, name in ((first, "first"), (second, "second"))
    ]
    sizes = [
        max(size, int(side.max(initial=0))) + 1
        for size, side in zip((height, width), sides, strict=True)
    ]
    counts = np.zeros((sizes[0], sizes[1]))
    for a in sides[0].T:
        for b in sides[1].T:
            counts += contingency_table(a, b, classes=sizes[0], experts=sizes[1])
    return counts[1:, 1:]


def next_expert_accuracy(first: ArrayLike, second: ArrayLike) -> float:
    """How often the commonest successor is right: top-1 predictability of the next layer (P4)."""
    counts = contingency_table(first, second)
    return float(ratio(counts.max(axis=1, initial=0).sum(), counts.sum()))


def path_numbers(paths: ArrayLike) -> IntArray:
    """A number for each distinct path, `(n,)`, of paths `(n, L)` of one expert a layer (P5)."""
    rows = _paths(paths)
    if not len(rows):
        return np.zeros(0, dtype=np.int64)
    return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


def path_entropy(paths: ArrayLike) -> float:
    """Entropy of the paths `(n, L)` in nats; its exponential counts the effective paths (P5)."""
    numbers = path_numbers(paths)
    if not len(numbers):
        return float("nan")
    return float(shannon_entropy(np.bincount(numbers) / len(numbers)))


def shuffled_path_entropy(paths: ArrayLike, *, permutations: int = 99, seed: int = 0) -> float:
    """Mean entropy (nats) of paths whose layers are shuffled apart: what `path_entropy` is where
    the expert of one layer says nothing about the next (P5).
    """
    rows, generator = _paths(paths), np.random.default_rng(seed)
    if not len(rows) or permutations < 1:
        return float("nan")
    drawn = (path_entropy(generator.permuted(rows, axis=0)) for _ in range(permutations))
    return float(np.mean(list(drawn)))


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
    if not 0 < k <= experts or layers < 0:
        raise ValueError(f"k must be from 1 to {experts} experts, not {k}, and layers 0 or more")
    return layers * math.log(math.comb(experts, k))


class RoutingDegree(NamedTuple):
    """Logarithms of the nominal and effective number of paths; their quotient (NaN if 0/0)."""

    nominal_log: float
    effective_log: float
    utilisation: float


def routing_degree(paths: ArrayLike, *, experts: int, k: int = 1) -> RoutingDegree:
    """How many of the possible paths are used (P6)? Effective paths are capped by the images.

    Paths `(n, L)` of images, or of tokens under token routing: say which. Stores of other sizes
    compare by `rarefied_paths` only.
    """
    rows = _paths(paths)
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


def top_paths(assignments: list[NDArray[np.int64]]) -> IntArray:
    """Paths `(n, L)` from one expert an image in each layer, given as `L` arrays `(n,)`."""
    columns = [classes_of(column, name="assignments") for column in assignments]
    if len({len(column) for column in columns}) != 1:
        raise ValueError("assignments must be one array a layer, all of the same images")
    return np.stack(columns, axis=1)


def _paths(paths: ArrayLike) -> IntArray:
    shape = np.shape(paths)
    if len(shape) != 2:
        raise ValueError(f"paths must have 2 axes (images, layers), not shape {shape}")
    return classes_of(np.ravel(paths), name="paths").reshape(shape)
