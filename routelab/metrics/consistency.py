"""Do images of one class take the same experts? Shares, agreement and variance by class."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from routelab.metrics.arrays import FloatArray, classes_of, masses, ratio, same_length
from routelab.metrics.profiles import class_profile, class_sums


class MaxShare(NamedTuple):
    """Largest share of each class `(C,)`, its means, and the share of classes with a tie.

    `macro` is the mean over classes, `micro` over images; `normalized` is (macro − 1/E)/(1 − 1/E).
    """

    per_class: FloatArray
    macro: float
    micro: float
    normalized: float
    tie_fraction: float


def max_share(
    labels: ArrayLike, profile: ArrayLike, *, classes: int | None = None, smallest_class: int = 2
) -> MaxShare:
    """Largest share of a class's mean profile, from 1/E to 1 (CC2).

    Never read it alone: it is biased upward in small classes and is 1 for a collapsed layer. Put the
    mean over shuffled labels (`permutation_test`) beside it. Classes with fewer images than
    `smallest_class` are NaN and left out of the means.
    """
    numbers = classes_of(labels)
    means = class_profile(numbers, profile, classes=classes)
    counts = np.bincount(numbers, minlength=len(means))
    defined = counts >= smallest_class
    largest = np.full(len(means), np.nan)
    nan = float("nan")
    if not defined.any():
        return MaxShare(largest, nan, nan, nan, nan)
    largest[defined] = means[defined].max(axis=1)
    tied = (means[defined] == largest[defined, None]).sum(axis=1) > 1
    macro = float(largest[defined].mean())
    micro = float(np.average(largest[defined], weights=counts[defined]))
    even = 1 / means.shape[1]
    normalized = float(ratio(macro - even, 1 - even))
    return MaxShare(largest, macro, micro, normalized, float(tied.mean()))


class Agreement(NamedTuple):
    """Mean ⟨π_i, π_j⟩ over pairs of one class, over pairs of two classes, and the difference."""

    within: float
    between: float
    contrast: float


def agreement(labels: ArrayLike, profile: ArrayLike) -> Agreement:
    """Same-class minus different-class agreement of profiles `(n, E)`, one-hot or soft (CC3).

    The contrast is 0 on average under shuffled labels, whatever the class sizes, and 0 for a
    collapsed layer. NaN where a kind of pair does not exist.

    >>> agreement([0, 0, 1, 1], np.eye(2)[[0, 0, 1, 1]])
    Agreement(within=1.0, between=0.0, contrast=1.0)
    """
    rows, numbers = masses(profile, name="profile", ndim=2), classes_of(labels)
    same_length(numbers, rows, names=("labels", "profile"))
    counts = np.bincount(numbers) if len(numbers) else np.zeros(1)
    sums = class_sums(numbers, rows, classes=len(counts))
    own = np.einsum("ne,ne->", rows, rows)
    same = np.einsum("ce,ce->", sums, sums)
    every = sums.sum(axis=0) @ sums.sum(axis=0)
    pairs_same = float((counts * (counts - 1)).sum())
    pairs_other = float(counts.sum() ** 2 - (counts**2).sum())
    within, between = float(ratio(same - own, pairs_same)), float(ratio(every - same, pairs_other))
    return Agreement(within, between, within - between)


class VarianceExplained(NamedTuple):
    """η² from 0 to 1 (biased up by (C−1)/(n−1)), and the pseudo-F of PERMANOVA."""

    eta_squared: float
    pseudo_f: float


def variance_explained(labels: ArrayLike, profile: ArrayLike) -> VarianceExplained:
    """Share of the profiles' variance that lies between classes, and its F (CC6).

    NaN where profiles do not vary, or there is one class; F is infinite without variance inside.
    """
    rows, numbers = masses(profile, name="profile", ndim=2), classes_of(labels)
    same_length(numbers, rows, names=("labels", "profile"))
    counts = np.bincount(numbers) if len(numbers) else np.zeros(0)
    used = counts > 0
    total = float(((rows - rows.mean(axis=0)) ** 2).sum()) if len(rows) else 0.0
    if used.sum() < 2 or total <= 1e-15 * max(len(rows), 1):
        return VarianceExplained(float("nan"), float("nan"))
    means = class_profile(numbers, rows)[used]
    between = float((counts[used, None] * (means - rows.mean(axis=0)) ** 2).sum())
    inside, freedom = max(total - between, 0.0), len(rows) - int(used.sum())
    if freedom == 0:
        return VarianceExplained(between / total, float("nan"))
    above, below = between / (int(used.sum()) - 1), inside / freedom
    return VarianceExplained(between / total, above / below if below > 0 else float("inf"))
