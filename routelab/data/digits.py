"""Which images come without a download? The 1,797 handwritten digits that scikit-learn ships."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_digits

from routelab.data.images import Images, make_images
from routelab.records import Refusal, Transform

SPLITS = ("train", "test", "all")
TEST_EVERY = 4
"""Every fourth image of a class is a test image."""


def digits(transform: Transform, split: str = "test") -> Images:
    """The digits 0 to 9, 8 × 8 grey pixels each, rendered at the transform's size.

    The split is fixed and stratified: within each class, in the data set's order, every fourth
    image is for testing (445 of 1,797). A writer may be in both parts, which flatters a model.

    Source: E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI (1998).

    Raises
    ------
    Refusal
        Another split than "train", "test" or "all".
    """
    if split not in SPLITS:
        raise Refusal(f"the digits have no split {split!r}; choose from {', '.join(SPLITS)}")
    bundle = load_digits()
    labels = bundle.target.astype(np.int64)
    levels = np.round(bundle.images * (255 / 16)).astype(np.uint8)
    chosen = _split(labels, split)
    return make_images(
        "digits",
        split,
        [f"digits/{index:04d}" for index in chosen],
        labels[chosen],
        [str(digit) for digit in range(10)],
        transform,
        lambda index: Image.fromarray(levels[chosen[index]]),
    )


def _split(labels: NDArray[np.int64], split: str) -> NDArray[np.int64]:
    """Indices of the images of a split, in order."""
    rank = np.empty(len(labels), dtype=np.int64)
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        rank[members] = np.arange(len(members))
    test = rank % TEST_EVERY == TEST_EVERY - 1
    wanted = {"all": np.ones_like(test), "train": ~test, "test": test}[split]
    return np.flatnonzero(wanted)
