"""The handwritten digits that scikit-learn ships: 1,797 real images, no download."""

from __future__ import annotations

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from routelab.data.dataset import Dataset, dataset
from routelab.records import Refusal, Transform

TEST_SHARE = 1 / 3
SPLIT_SEED = 0
SPLITS = ("train", "test", "all")


def digits_dataset(transform: Transform, *, split: str = "test") -> Dataset:
    """8 × 8 digits as grey pictures; the split is stratified by class and always the same.

    Raises
    ------
    Refusal
        For a split other than train, test or all.
    """
    if split not in SPLITS:
        raise Refusal(f"the digits have no split {split!r}; take one of {', '.join(SPLITS)}")
    images, labels = load_digits(return_X_y=True)
    rows = np.arange(len(labels))
    if split != "all":
        parts = train_test_split(
            rows, test_size=TEST_SHARE, random_state=SPLIT_SEED, stratify=labels
        )
        rows = np.sort(parts[SPLITS.index(split)])
    grey = (images.reshape(-1, 8, 8) * (255 / 16)).round().astype(np.uint8)
    return dataset(
        source="digits",
        split=split,
        classes=[str(digit) for digit in range(10)],
        ids=[f"digits/{row:04d}" for row in rows],
        labels=labels[rows],
        transform=transform,
        open_picture=lambda row: Image.fromarray(grey[rows[row]]),
    )
