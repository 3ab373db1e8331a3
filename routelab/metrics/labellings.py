"""In which other orders could the labels stand? All of them if they are few, else random ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from routelab.metrics.arrays import IntArray, classes_of, same_length

EXACT_LIMIT = 10_000
"""Labellings that are enumerated instead of drawn."""

Seed = int | np.random.Generator


class Labellings(NamedTuple):
    """Labels in other orders, one `(n,)` at a time, and whether these are all that there are."""

    rows: Iterator[IntArray]
    exact: bool


def labellings(
    labels: ArrayLike, *, permutations: int, seed: Seed, strata: ArrayLike | None = None
) -> Labellings:
    """All labellings where there are at most 10,000, or `permutations` random ones."""
    numbers = classes_of(labels)
    if labelling_count(numbers, strata=strata) <= EXACT_LIMIT:
        return Labellings(every_labelling(numbers, strata=strata), exact=True)
    return Labellings(shuffles(numbers, permutations, seed=seed, strata=strata), exact=False)


def labelling_count(labels: ArrayLike, *, strata: ArrayLike | None = None) -> int:
    """Number of different labellings with these class sizes, n! / Π n_c!, inside each stratum.

    Exact up to 10 times what is enumerated, and that number for all that is more.

    >>> labelling_count([0, 0, 1, 1]), labelling_count([0, 1, 0, 1], strata=[0, 0, 1, 1])
    (6, 4)
    """
    most, count = 10 * EXACT_LIMIT, 1
    for part in _parts(classes_of(labels), strata):
        sizes = np.sort(np.unique(part, return_counts=True)[1]).tolist()
        logarithm = math.lgamma(len(part) + 1) - sum(math.lgamma(size + 1) for size in sizes)
        if logarithm > math.log(most) + 1:
            return most
        left = len(part)
        for size in sizes[:-1]:
            count *= math.comb(left, size)
            left -= size
        if count > most:
            return most
    return count


def every_labelling(labels: ArrayLike, *, strata: ArrayLike | None = None) -> Iterator[IntArray]:
    """All different labellings with the same class sizes (inside each stratum)."""
    numbers = classes_of(labels)
    groups = _groups(numbers, strata)

    def fill(stratum: int, drawn: IntArray) -> Iterator[IntArray]:
        if stratum == len(groups):
            yield drawn.copy()
            return
        for part in _arrangements(numbers[groups[stratum]]):
            drawn[groups[stratum]] = part
            yield from fill(stratum + 1, drawn)

    yield from fill(0, numbers.copy())


def _arrangements(labels: IntArray) -> Iterator[IntArray]:
    """Different orders of labels; the largest class takes the places that the others leave."""
    classes, counts = np.unique(labels, return_counts=True)
    order = np.argsort(counts, kind="stable")

    def place(rank: int, free: IntArray, drawn: IntArray) -> Iterator[IntArray]:
        if rank >= len(order) - 1:
            yield drawn
            return
        for chosen in combinations(range(len(free)), int(counts[order[rank]])):
            filled = drawn.copy()
            filled[free[list(chosen)]] = classes[order[rank]]
            yield from place(rank + 1, np.delete(free, list(chosen)), filled)

    start = np.full(len(labels), classes[order[-1]] if len(order) else 0, dtype=np.int64)
    yield from place(0, np.arange(len(labels)), start)


def shuffles(
    labels: ArrayLike, count: int, *, seed: Seed, strata: ArrayLike | None = None
) -> Iterator[IntArray]:
    """Labels in random order, `count` times; the same seed gives the same shuffles."""
    numbers, generator = classes_of(labels), np.random.default_rng(seed)
    if strata is None:
        for _ in range(count):
            yield generator.permutation(numbers)
        return
    groups = _groups(numbers, strata)
    for _ in range(count):
        drawn = np.empty_like(numbers)
        for group in groups:
            drawn[group] = generator.permutation(numbers[group])
        yield drawn


def _groups(labels: IntArray, strata: ArrayLike | None) -> list[IntArray]:
    """Rows of each stratum; one stratum where none is given."""
    if strata is None:
        return [np.arange(len(labels))]
    numbers = classes_of(strata, name="strata")
    same_length(labels, numbers, names=("labels", "strata"))
    ends = np.cumsum(np.unique(numbers, return_counts=True)[1])
    return np.split(np.argsort(numbers, kind="stable"), ends[:-1])


def _parts(labels: IntArray, strata: ArrayLike | None) -> Iterator[IntArray]:
    for group in _groups(labels, strata):
        yield labels[group]


def smallest_p(labels: ArrayLike, permutations: int) -> float:
    """The least p that so many permutations, or all labellings, can give.

    A bound: where classes are of equal size, swapping them may change nothing, and
    `permutation_test` reports the least that its statistic can reach. Four images never reach 5 %.

    >>> smallest_p([0, 0, 1, 1], 999)
    0.16666666666666666
    """
    count = labelling_count(labels)
    return 1 / count if count <= EXACT_LIMIT else 1 / (1 + permutations)
