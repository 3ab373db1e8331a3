"""Do images of one class take the same experts? Shares, agreement and variance by class."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from routelab.metrics.arrays import FloatArray, IntArray, classes_of, masses, ratio, same_length
from routelab.metrics.class_statistics import (
    between_ratio,
    class_max_shares,
    pair_agreements,
    scatter,
)
from routelab.metrics.profiles import at_top, class_counts, class_sums

NAN = float("nan")


class MaxShare(NamedTuple):
    """Largest share of each class `(C,)`, its means, and how much of it is a coin's choice.

    `macro` is the mean over classes, `micro` over images; `normalized` is (macro − 1/E)/(1 − 1/E).
    `modal` is the expert of each class, the lowest index among ties (−1 for a class left out), and
    `tie_fraction` the share of classes with a tie. `excluded` lists classes that were too small.
    """

    per_class: FloatArray
    modal: IntArray
    macro: float
    micro: float
    normalized: float
    tie_fraction: float
    excluded: IntArray
    reason: str


def max_share(
    labels: ArrayLike, profile: ArrayLike, *, classes: int | None = None, smallest_class: int = 2
) -> MaxShare:
    """Largest share of a class's mean profile, from 1/E to 1 (CC2).

    Never read it alone: it is biased upward in small classes (8 even experts and 10 images a class
    give .30, not .125) and is 1 for a collapsed layer. `consistency_test` puts the mean over
    shuffled labels beside it, and `held_out_share` is free of the bias. Classes with fewer images
    than `smallest_class` are NaN and left out of the means.

    >>> max_share([0, 0, 1, 1], np.eye(2)[[0, 0, 1, 1]]).macro  # each class has its expert
    1.0
    >>> max_share([0, 0, 1, 1], np.eye(2)[[0, 1, 0, 1]]).macro  # no class prefers one
    0.5
    """
    numbers, rows = _labelled(labels, profile)
    counts = class_counts(numbers, classes=classes)
    sums = class_sums(numbers, rows, classes=len(counts))
    largest = class_max_shares(sums, counts, smallest_class=smallest_class)
    defined = counts >= smallest_class
    excluded = np.flatnonzero(~defined)
    modal = np.where(defined, at_top(sums).argmax(axis=1) if sums.size else -1, -1)
    if not defined.any():
        reason = f"no class has {smallest_class} images"
        return MaxShare(largest, modal, NAN, NAN, NAN, NAN, excluded, reason)
    tied = at_top(sums[defined]).sum(axis=1) > 1
    macro = float(largest[defined].mean())
    even = 1 / rows.shape[1]
    return MaxShare(
        largest,
        modal,
        macro,
        float(np.average(largest[defined], weights=counts[defined])),
        float(ratio(macro - even, 1 - even)),
        float(tied.mean()),
        excluded,
        "",
    )


class Agreement(NamedTuple):
    """Mean ⟨π_i, π_j⟩ over pairs of one class, over pairs of two classes, and the difference."""

    within: float
    between: float
    contrast: float
    reason: str


def agreement(
    labels: ArrayLike, profile: ArrayLike, *, weights: ArrayLike | None = None
) -> Agreement:
    """Same-class minus different-class agreement of profiles `(n, E)`, one-hot or soft (CC3).

    The contrast is 0 on average under shuffled labels, whatever the class sizes, and 0 for a
    collapsed layer; 1 where each class has experts of its own. NaN where a kind of pair does not
    exist.

    `weights (n,)` are how often a bootstrap drew each image. Give them instead of repeated rows: an
    image agrees with its copy, and pairs of copies would lift the contrast by about (1 − w)/n_c.

    >>> agreement([0, 0, 1, 1], np.eye(2)[[0, 0, 1, 1]]).contrast
    1.0
    >>> agreement([0, 0, 1, 1], np.eye(2)[[0, 0, 0, 0]]).contrast
    0.0
    """
    numbers, rows = _labelled(labels, profile)
    drawn = masses(np.ones(len(rows)) if weights is None else weights, name="weights", ndim=1)
    same_length(drawn, rows, names=("weights", "profile"))
    size = np.bincount(numbers, drawn).astype(np.float64)
    sums = class_sums(numbers, rows * drawn[:, None], classes=len(size))
    own = float(np.einsum("n,ne,ne->", drawn**2, rows, rows))
    pairs = pair_agreements(sums, size, own, float((drawn**2).sum()))
    within, between = (float(value) for value in pairs)
    return Agreement(within, between, within - between, _pairs_missing(numbers[drawn > 0]))


def _pairs_missing(labels: IntArray) -> str:
    """Why there is no contrast; empty if there is one."""
    counts = np.bincount(labels)
    if np.count_nonzero(counts) < 2:
        return "degenerate: one class" if counts.any() else "no image"
    return "" if (counts > 1).any() else "no class has 2 images"


class VarianceExplained(NamedTuple):
    """η² from 0 to 1 (biased up by (C−1)/(n−1)), and the pseudo-F of PERMANOVA (1 by chance)."""

    eta_squared: float
    pseudo_f: float
    reason: str


def variance_explained(labels: ArrayLike, profile: ArrayLike) -> VarianceExplained:
    """Share of the profiles' variance that lies between classes, and its F (CC6).

    Euclidean; give √profile for Hellinger distance. F is infinite without variance inside classes,
    and NaN where each image is its own class.

    >>> variance_explained([0, 0, 1, 1], np.eye(2)[[0, 0, 1, 1]]).eta_squared
    1.0
    >>> variance_explained([0, 0, 1, 1], np.eye(2)[[0, 1, 0, 1]]).eta_squared
    0.0
    """
    numbers, rows = _labelled(labels, profile)
    counts = class_counts(numbers)
    used = int(np.count_nonzero(counts))
    if used < 2:
        return VarianceExplained(NAN, NAN, "degenerate: one class" if used else "no image")
    total = scatter(rows)
    if total == 0:
        return VarianceExplained(NAN, NAN, "degenerate: profiles do not vary")
    sums = class_sums(numbers, rows, classes=len(counts))
    explained = min(float(between_ratio(sums, counts, total)), 1.0)
    if len(rows) == used:
        return VarianceExplained(explained, NAN, "every image is a class of its own")
    # Rounding must not make a finite F of classes that do not vary inside.
    inside = 1 - explained if 1 - explained > 1e-14 else 0.0
    odds = explained / inside if inside else float("inf")
    return VarianceExplained(explained, odds * (len(rows) - used) / (used - 1), "")


def _labelled(labels: ArrayLike, profile: ArrayLike) -> tuple[IntArray, FloatArray]:
    """Labels and profiles of the same images."""
    numbers, rows = classes_of(labels), masses(profile, name="profile", ndim=2)
    same_length(numbers, rows, names=("labels", "profile"))
    return numbers, rows
