"""Do two sets of features describe the same images alike? Linear CKA, plain and debiased."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from routelab.metrics.arrays import FloatArray, finite, same_length

ROUNDING = 1e-12
"""Relative: features that centring leaves this small were constant."""


def linear_cka(first: ArrayLike, second: ArrayLike, *, debiased: bool = True) -> float:
    """Linear CKA of features `(n, d1)` and `(n, d2)` of the same images (F6).

    1 for rotated and scaled copies; NaN for features that are the same for all images. The plain
    form, in [0, 1], is biased up when d is near n; the debiased one (n ≥ 4) is 0 by chance and may
    be negative, and is NaN where its own scale is not positive.

    Kornblith et al. 2019 and, debiased, Song et al. 2012, eq. 5.
    """
    x, y = finite(first, name="first", ndim=2), finite(second, name="second", ndim=2)
    same_length(x, y, names=("first", "second"))
    if len(x) < (4 if debiased else 2):
        return float("nan")
    x, y = _centred(x), _centred(y)
    similarity = _unbiased_hsic if debiased else _shared
    own_x, own_y = similarity(x, x), similarity(y, y)
    if not (own_x > 0 and own_y > 0):
        return float("nan")
    return similarity(x, y) / math.sqrt(own_x * own_y)


def _centred(rows: FloatArray) -> FloatArray:
    """Features without their mean, scaled to norm 1, as CKA minds neither; 0 if constant."""
    left = rows - rows.mean(axis=0)
    size = float(np.linalg.norm(left))
    return left / size if size > ROUNDING * float(np.linalg.norm(rows)) else np.zeros_like(left)


def _shared(x: FloatArray, y: FloatArray) -> float:
    """‖YᵀX‖²_F = tr(XXᵀYYᵀ), by whichever side is smaller: images or features."""
    if len(x) < min(x.shape[1], y.shape[1]):
        return float(((x @ x.T) * (y @ y.T)).sum())
    return float(((y.T @ x) ** 2).sum())


def _unbiased_hsic(x: FloatArray, y: FloatArray) -> float:
    """Unbiased HSIC of centred features, up to a factor that cancels.

    It is a function of Gram matrices without their diagonal. Rows of a centred Gram matrix sum to
    0, so that without it they sum to −k_ii, and no n × n matrix is needed.
    """
    n = len(x)
    k, m = (x**2).sum(axis=1), (y**2).sum(axis=1)
    whole = float(k.sum() * m.sum()) / ((n - 1) * (n - 2))
    return _shared(x, y) - float(k @ m) * (1 + 2 / (n - 2)) + whole
