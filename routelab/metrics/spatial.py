"""Do neighbouring patches take the same expert, more than shuffled patches would?"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from routelab.metrics.arrays import FloatArray, classes_of, ratio


class Coherence(NamedTuple):
    """Agreement of neighbours a image, its mean under shuffled patches, and (a − c)/(1 − c)."""

    agreement: FloatArray
    chance: FloatArray
    adjusted: FloatArray


def spatial_coherence(experts: ArrayLike) -> Coherence:
    """Share of 4-neighbour patch pairs with one expert, `(n,)` of expert maps `(n, h, w)` (I3).

    Chance is the exact mean over shuffles of the image's own patches, Σ n_e(n_e−1) / T(T−1): a sum
    of squared shares would be too high. An image with one expert agrees always; adjusted NaN.

    >>> spatial_coherence([[[0, 0], [1, 1]]]).agreement
    array([0.5])
    """
    shape = np.shape(experts)
    if len(shape) != 3:
        raise ValueError(f"experts must have 3 axes (images, height, width), not shape {shape}")
    maps = classes_of(np.ravel(experts), name="experts").reshape(shape)
    down, right = maps[:, 1:] == maps[:, :-1], maps[:, :, 1:] == maps[:, :, :-1]
    pairs = math.prod(down.shape[1:]) + math.prod(right.shape[1:])
    agreement = ratio(down.sum(axis=(1, 2)) + right.sum(axis=(1, 2)), pairs)
    chance = shuffled_agreement(maps.reshape(len(maps), math.prod(shape[1:])))
    return Coherence(agreement, chance, ratio(agreement - chance, 1 - chance))


def shuffled_agreement(experts: ArrayLike) -> FloatArray:
    """Probability that two different tokens of an image share an expert, `(n,)` of `(n, T)`."""
    shape = np.shape(experts)
    if len(shape) != 2:
        raise ValueError(f"experts must have 2 axes (images, tokens), not shape {shape}")
    rows = classes_of(np.ravel(experts), name="experts").reshape(shape)
    images, tokens = shape
    width = int(rows.max(initial=-1)) + 1
    places = (rows + width * np.arange(images)[:, None]).ravel()
    counts = np.bincount(places, minlength=images * width).reshape(images, width)
    return ratio((counts * (counts - 1)).sum(axis=1), tokens * (tokens - 1))
