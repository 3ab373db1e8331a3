"""Which images are looked at? A random sample that shows every class equally often."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def balanced_sample(
    labels: NDArray[np.int64], count: int | None, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Sorted indices of `count` images, as many of each class as there are to take.

    Images are shuffled within their class and dealt out class after class, so that counts differ
    by at most one among classes that are not used up. Images without labels (-1) are one class.
    None, or more than there are, takes all.
    """
    labels = np.asarray(labels)
    if count is None or count >= len(labels):
        return np.arange(len(labels))
    order = generator.permutation(len(labels))
    by_class = order[np.argsort(labels[order], kind="stable")]
    _, first, size = np.unique(labels[by_class], return_index=True, return_counts=True)
    turn = np.arange(len(labels)) - np.repeat(first, size)
    lot = generator.permutation(len(size))  # which classes get one more, where counts do not divide
    dealt = np.lexsort((np.repeat(lot, size), turn))
    return np.sort(by_class[dealt[:count]])
