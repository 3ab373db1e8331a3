"""Is a pattern there in images that it was not chosen on? One half chooses, one measures."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from routelab.metrics.arrays import FloatArray, IntArray, classes_of, finite, ratio
from routelab.metrics.labellings import Seed
from routelab.metrics.profiles import class_profile

NAN = float("nan")


class Halves(NamedTuple):
    """Two disjoint halves of the images, as masks `(n,)`."""

    first: NDArray[np.bool_]
    second: NDArray[np.bool_]


def split_halves(strata: ArrayLike, *, seed: Seed = 0) -> Halves:
    """Disjoint halves of the images, even within class to one image (Q7).

    >>> first, second = split_halves([0, 0, 1, 1])
    >>> int(first.sum()), bool((first ^ second).all())
    (2, True)
    """
    numbers, generator = classes_of(strata, name="strata"), np.random.default_rng(seed)
    shuffled = generator.permutation(len(numbers))
    by_class = shuffled[np.argsort(numbers[shuffled], kind="stable")]
    first = np.zeros(len(numbers), dtype=bool)
    first[by_class[::2]] = True
    return Halves(first, ~first)


class HeldOutShare(NamedTuple):
    """Share of each class at the expert chosen on the other half `(C,)`, the experts, the mean."""

    per_class: FloatArray
    expert: IntArray
    macro: float


def held_out_share(
    labels: ArrayLike, profile: ArrayLike, *, classes: int | None = None, seed: Seed = 0
) -> HeldOutShare:
    """Maximum share without its bias: the expert is chosen on one half of the images (CC2, Q7).

    1/E by chance whatever the class sizes, if experts are used evenly; a class that is empty in a
    half is NaN, and its expert −1.

    >>> held_out_share([0, 0, 1, 1], np.eye(2)[[0, 0, 1, 1]]).macro
    1.0
    """
    numbers, rows = classes_of(labels), finite(profile, name="profile", ndim=2)
    count = max(classes or 0, int(numbers.max(initial=-1)) + 1)
    chosen_on, measured_on = (
        class_profile(numbers[half], rows[half], classes=count)
        for half in split_halves(numbers, seed=seed)
    )
    there = np.isfinite(chosen_on).all(axis=1) & np.isfinite(measured_on).all(axis=1)
    expert = np.where(there, np.nan_to_num(chosen_on, nan=-1.0).argmax(axis=1), -1)
    share = np.full(count, np.nan)
    share[there] = measured_on[there, expert[there]]
    return HeldOutShare(share, expert, float(share[there].mean()) if there.any() else NAN)


def class_order(profile: ArrayLike) -> IntArray:
    """Order of classes `(C,)` by top expert, the most decided first; empty classes last (CC1).

    Sort by one half of the images and draw the other: sorted by itself, noise shows a diagonal.

    >>> class_order([[0.2, 0.8], [0.6, 0.4], [0.9, 0.1]])
    array([2, 1, 0])
    """
    rows = np.asarray(profile, dtype=np.float64)
    filled = np.nan_to_num(rows, nan=-1.0)
    empty = np.isnan(rows).any(axis=1)
    return np.lexsort((-filled.max(axis=1), filled.argmax(axis=1), empty))


def split_half_correlation(first: ArrayLike, second: ArrayLike) -> float:
    """Reliability: correlation over cells of two class profiles `(C, E)` of disjoint halves (Q7).

    Each expert's mean over classes is taken out first: experts that all classes use unevenly would
    agree between halves without any class structure. 0 by chance, 1 where halves agree. Classes
    that are empty in a half are left out; NaN where a profile does not vary.
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.shape != b.shape or a.ndim != 2:
        raise ValueError(f"class profiles must be two (C, E) arrays, not {a.shape} and {b.shape}")
    both = np.isfinite(a).all(axis=1) & np.isfinite(b).all(axis=1)
    if both.sum() < 2:
        return NAN
    x, y = (part[both] - part[both].mean(axis=0) for part in (a, b))
    scale = math.sqrt((x**2).sum() * (y**2).sum())
    return float(ratio((x * y).sum(), scale if scale > 1e-15 else 0.0))
