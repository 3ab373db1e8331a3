"""What would the sums of routing by class be under shuffled labels, or with other images?

Every class statistic of a profile is a function of its sums by class, so a null of a thousand
permutations needs a thousand sums and nothing else. One sum is a product of a sparse indicator with
the profile: 18 ms for a million images and 16 experts. Small stores take many draws in one product;
memory grows with neither images × draws nor draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

FloatArray = NDArray[np.float64]
Labels = NDArray[np.int32]

AT_ONCE = 2**18
"""Images × draws that are summed in one product."""


class Sums(NamedTuple):
    """Sums by class over images of weight w (1, or how often a bootstrap drew the image), by draw.

    Attributes
    ----------
    mass
        Σ w π, shape (draws, C, E).
    counts
        Σ w, shape (draws, C).
    norms
        Σ w ‖π‖², shape (draws, C).
    self_pairs
        Σ w², shape (draws, C): pairs of an image with itself.
    self_norms
        Σ w² ‖π‖², shape (draws, C).
    """

    mass: FloatArray
    counts: FloatArray
    norms: FloatArray
    self_pairs: FloatArray
    self_norms: FloatArray


class ClassSums:
    """Sums of image profiles by class, for any labels and weights of the images.

    Parameters
    ----------
    profile
        Rows of shares, shape (n, E); every row finite.
    classes
        C.
    """

    def __init__(self, profile: FloatArray, classes: int) -> None:
        ones, norms = np.ones(len(profile)), np.einsum("ne,ne->n", profile, profile)
        self._columns = np.column_stack([profile, ones, norms])
        self._classes = classes

    def under(self, labels: Labels) -> Sums:
        """Sums under these labels, shape (draws, n), every image once."""
        sums = self._product(labels, np.ones(labels.shape), self._columns)
        counts, norms = sums[..., -2], sums[..., -1]
        return Sums(sums[..., :-2], counts, norms, counts, norms)

    def weighted(self, labels: Labels, weights: FloatArray) -> Sums:
        """Sums under labels, shape (n,), with image weights, shape (draws, n)."""
        drawn = np.broadcast_to(labels, weights.shape)
        sums = self._product(drawn, weights, self._columns)
        squared = self._product(drawn, weights**2, self._columns[:, -2:])
        return Sums(sums[..., :-2], sums[..., -2], sums[..., -1], squared[..., 0], squared[..., 1])

    def _product(self, labels: Labels, weights: FloatArray, columns: FloatArray) -> FloatArray:
        """Σ_i w[d, i] columns[i] by class of each draw, shape (draws, C, columns)."""
        draws, images = labels.shape
        row = labels + np.arange(draws, dtype=np.int32)[:, None] * self._classes
        pointer = np.arange(images + 1, dtype=np.int32) * draws
        indicator = sparse.csc_array(
            (weights.T.ravel(), row.T.ravel(), pointer), shape=(draws * self._classes, images)
        )
        return np.asarray(indicator @ columns).reshape(draws, self._classes, -1)


def permutations(labels: Labels, draws: int, *, seed: int) -> Iterator[Labels]:
    """Labels shuffled over images, in blocks (b, n); the same seed shuffles every layer alike."""
    generator = np.random.default_rng(seed)
    for block in _blocks(draws, len(labels)):
        yield np.array([generator.permutation(labels) for _ in range(block)])


def bootstraps(labels: Labels, draws: int, *, seed: int) -> Iterator[FloatArray]:
    """How often each image is drawn with replacement within its class, in blocks (b, n)."""
    generator = np.random.default_rng(seed)
    order = np.argsort(labels, kind="stable")
    size = np.bincount(labels)
    start, width = np.repeat(np.cumsum(size) - size, size), np.repeat(size, size)
    for block in _blocks(draws, len(labels)):
        weights = np.empty((block, len(order)))
        for row in weights:
            chosen = order[start + (generator.random(len(order)) * width).astype(np.int64)]
            row[:] = np.bincount(chosen, minlength=len(order))
        yield weights


def halves(labels: Labels, draws: int, *, seed: int) -> Iterator[NDArray[np.bool_]]:
    """Random halves of the images, half of every class to within one image, in blocks (b, n)."""
    generator = np.random.default_rng(seed)
    small = labels.astype(np.uint16) if labels.max(initial=0) < 2**16 else labels
    for block in _blocks(draws, len(labels)):
        chosen = np.zeros((block, len(labels)), dtype=bool)
        for row in chosen:
            shuffled = generator.permutation(len(labels))
            row[shuffled[np.argsort(small[shuffled], kind="stable")][::2]] = True
        yield chosen


def _blocks(draws: int, images: int) -> Iterator[int]:
    """Sizes of blocks that add up to `draws`."""
    size = max(1, AT_ONCE // max(images, 1))
    for start in range(0, draws, size):
        yield min(size, draws - start)
