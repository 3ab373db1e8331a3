"""Can the class be read from routing, as far as it can be read from features at all?"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from routelab.metrics.arrays import FloatArray, IntArray, classes_of, finite, ratio, same_length

STRENGTHS = (0.01, 0.1, 1.0)
"""Inverse strengths of the L2 penalty that the inner cross-validation chooses from."""


LEAST_IMAGES = 4
"""Of a class: one or more held out, and two to train on, one for each inner fold."""


class Probe(NamedTuple):
    """Balanced held-out accuracy of each split `(splits,)`, their mean, and its standard error.

    The error is that of a share over the held-out images of a split, not of the few splits.
    Chance is 1 / `classes`; `excluded` classes had too few images.
    """

    accuracies: FloatArray
    accuracy: float
    error: float
    classes: int
    excluded: tuple[int, ...] = ()


def linear_probe(
    features: ArrayLike,
    labels: ArrayLike,
    *,
    splits: int = 3,
    held_out: float = 0.3,
    seed: int = 0,
    shuffled: bool = False,
) -> Probe:
    """Logistic regression on features `(n, d)`: balanced accuracy on held-out images (F4, CC7).

    Standardised on the training part; the L2 penalty by inner cross-validation. The same seed gives
    the same splits for every input. `shuffled` gives the control task: labels in random order.
    Classes with fewer than 4 images are left out and listed; NaN with fewer than two left.
    """
    if splits < 1 or not 0 < held_out < 1:
        raise ValueError(f"splits must be 1 or more and held_out a share, not {splits}, {held_out}")
    rows, numbers = finite(features, name="features", ndim=2), classes_of(labels)
    same_length(rows, numbers, names=("features", "labels"))
    counts = np.bincount(numbers)
    usable = (counts >= LEAST_IMAGES)[numbers]
    excluded = tuple(np.flatnonzero((counts > 0) & (counts < LEAST_IMAGES)).tolist())
    rows, numbers = rows[usable], numbers[usable]
    classes = int(np.unique(numbers).size)
    if classes < 2:
        return Probe(np.full(splits, np.nan), float("nan"), float("nan"), classes, excluded)
    if shuffled:
        numbers = np.random.default_rng(seed).permutation(numbers)
    scores, tested = [], 0
    for train, test in _splits(numbers, splits, held_out, seed):
        scores.append(_fit_and_score(rows, numbers, train, test))
        tested += len(test)
    mean = float(np.mean(scores))
    error = math.sqrt(max(mean * (1 - mean), 1 / tested) / (tested / splits))
    return Probe(np.array(scores), mean, error, classes, excluded)


def _splits(
    numbers: IntArray, splits: int, held_out: float, seed: int
) -> Iterator[tuple[IntArray, IntArray]]:
    """Stratified splits, every class on both sides."""
    classes = np.unique(numbers).size
    size = max(classes, round(held_out * len(numbers)))
    size = min(size, len(numbers) - 2 * classes)
    yield from StratifiedShuffleSplit(splits, test_size=size, random_state=seed).split(
        np.zeros(len(numbers)), numbers
    )


def _fit_and_score(rows: FloatArray, numbers: IntArray, train: IntArray, test: IntArray) -> float:
    model = make_pipeline(
        StandardScaler(),
        LogisticRegressionCV(
            Cs=list(STRENGTHS), cv=2, max_iter=100, tol=1e-3, scoring="balanced_accuracy"
        ),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", FutureWarning)
        model.fit(rows[train], numbers[train])
    return float(balanced_accuracy_score(numbers[test], model.predict(rows[test])))


def random_projection(features: ArrayLike, width: int, *, seed: int = 0) -> FloatArray:
    """Features `(n, d)` seen along `width` random directions: a gate's fair ceiling (CC7)."""
    rows = finite(features, name="features", ndim=2)
    directions = np.random.default_rng(seed).normal(size=(rows.shape[1], width))
    return rows @ directions / math.sqrt(rows.shape[1])


def probe_efficiency(routing: Probe | float, features: Probe | float, *, classes: int) -> float:
    """(acc_routing − 1/C) / (acc_features − 1/C): 0 none, 1 all that is there, more by noise (CC7).

    NaN where features are within two standard errors of chance: there is nothing to route by.

    >>> round(probe_efficiency(0.6, 0.9, classes=10), 7)
    0.625
    """
    read = routing.accuracy if isinstance(routing, Probe) else routing
    there = features.accuracy if isinstance(features, Probe) else features
    error = features.error if isinstance(features, Probe) else 0.0
    if not there - 1 / classes >= 2 * error:
        return float("nan")
    return float(ratio(read - 1 / classes, there - 1 / classes))
