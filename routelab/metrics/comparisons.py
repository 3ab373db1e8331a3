"""Is one model better than another on the same images, and which of many cells stand out?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binomtest, false_discovery_control

from routelab.metrics.arrays import FloatArray, finite, same_length


class McNemar(NamedTuple):
    """Images that only one of two models has right, the difference in accuracy, and its exact p."""

    only_first: int
    only_second: int
    difference: float
    p: float


def mcnemar(first: ArrayLike, second: ArrayLike) -> McNemar:
    """Are two models right equally often, given who is right on which image (Q5)?

    Exact and two-sided: images on which both agree say nothing; 1 if there are no others.

    >>> mcnemar([1, 1, 1, 1, 1, 0, 1], [0, 0, 0, 0, 0, 1, 1]).p
    0.21875
    """
    a, b = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    same_length(a, b, names=("first", "second"))
    only_first, only_second = int((a & ~b).sum()), int((~a & b).sum())
    discordant = only_first + only_second
    p = float(binomtest(only_first, discordant).pvalue) if discordant else 1.0
    difference = (only_first - only_second) / len(a) if len(a) else float("nan")
    return McNemar(only_first, only_second, difference, p)


def benjamini_hochberg(p: ArrayLike) -> FloatArray:
    """Adjusted p (q values) that control the false discovery rate over many cells (Q4).

    >>> benjamini_hochberg([0.01, 0.04, 0.03, 0.5]).round(7)
    array([0.04     , 0.0533333, 0.0533333, 0.5      ])
    """
    values = finite(p, name="p")
    if values.size and not (values.min() >= 0 and values.max() <= 1):
        raise ValueError("p must lie from 0 to 1")
    if not values.size:
        return values
    return np.asarray(false_discovery_control(values.ravel())).reshape(values.shape)
