"""What may enter a metric? Finite numbers of the right shape, or one sentence says why not."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
SIMPLEX_TOLERANCE = 1e-3
"""How far a row of shares may be from 1: float16 captures are that rough."""


def finite(values: ArrayLike, *, name: str, ndim: int | None = None) -> FloatArray:
    """The values in float64.

    Raises
    ------
    ValueError
        For NaN or infinity, or another number of axes than `ndim`.
    """
    array = np.asarray(values, dtype=np.float64)
    if ndim is not None and array.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} axes, not shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds NaN or infinite values; leave those rows out first")
    return array


def masses(values: ArrayLike, *, name: str, ndim: int | None = None) -> FloatArray:
    """Finite values that are not negative, as weights, counts and shares are."""
    array = finite(values, name=name, ndim=ndim)
    if array.size and array.min() < 0:
        raise ValueError(f"{name} holds negative values; weights and counts are 0 or more")
    return array


def simplex(values: ArrayLike, *, name: str, ndim: int | None = None) -> FloatArray:
    """Shares whose last axis sums to 1 within `SIMPLEX_TOLERANCE`, scaled to sum to 1 exactly.

    Raises
    ------
    ValueError
        For a row of another sum: a dropped token, gates that were never renormalised, logits.
    """
    array = masses(values, name=name, ndim=ndim)
    total = array.sum(axis=-1, keepdims=True)
    if total.size and np.abs(total - 1).max() > SIMPLEX_TOLERANCE:
        worst = float(total.ravel()[np.abs(total - 1).argmax()])
        raise ValueError(
            f"rows of {name} must sum to 1 over experts, and one sums to {worst:.4g}; "
            "leave dropped tokens out, or scale with row_shares"
        )
    return array / total


def classes_of(labels: ArrayLike, *, name: str = "labels") -> IntArray:
    """Labels as integers from 0; -1 (no label) must have been left out.

    Raises
    ------
    ValueError
        For negative, fractional or NaN labels, and for names.
    """
    array = np.asarray(labels)
    if array.ndim != 1:
        raise ValueError(f"{name} must have 1 axis, not shape {array.shape}")
    if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
        raise ValueError(f"{name} must be whole numbers from 0; np.unique can number names")
    whole = array.astype(np.int64)
    if (whole != array).any():
        raise ValueError(f"{name} must be whole numbers")
    if whole.size and whole.min() < 0:
        raise ValueError(f"{name} holds negative numbers; leave images without a label out first")
    return whole


def same_length(first: np.ndarray, second: np.ndarray, *, names: tuple[str, str]) -> None:
    """Refuse arrays over different numbers of images."""
    if len(first) != len(second):
        raise ValueError(f"{names[0]} has {len(first)} rows and {names[1]} has {len(second)}")


def ratio(above: ArrayLike, below: ArrayLike) -> FloatArray:
    """Above / below, NaN where below is 0, without a warning."""
    top, bottom = np.broadcast_arrays(
        np.asarray(above, dtype=np.float64), np.asarray(below, dtype=np.float64)
    )
    return np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom != 0)


def row_shares(values: ArrayLike) -> FloatArray:
    """Rows scaled to sum 1 along the last axis; a row without mass is NaN.

    >>> row_shares([[3.0, 1.0], [0.0, 0.0]])
    array([[0.75, 0.25],
           [ nan,  nan]])
    """
    array = masses(values, name="values")
    return ratio(array, array.sum(axis=-1, keepdims=True))
