"""Data sets that timm knows by name, read from disk: `torch/cifar10`, `tfds/…`, `hfds/…`."""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import Image
from timm.data.dataset_factory import create_dataset

from routelab.data.dataset import Dataset, dataset
from routelab.records import Refusal, Transform


def named_dataset(name: str, root: str, transform: Transform, *, split: str) -> Dataset:
    """A timm or torchvision data set that already lies under `root`; nothing is downloaded.

    Raises
    ------
    Refusal
        If timm does not know the name, or the files are not there.
    """
    try:
        found: Any = create_dataset(name, root=root, split=split, download=False)
    except Exception as error:  # every data set of timm's raises its own kind
        raise Refusal(
            f"data set {name} (split {split}) could not be opened under {root}: {error}; "
            "download it there first, or check the name"
        ) from error
    labels = getattr(found, "targets", None)
    if labels is None:
        labels = [int(found[row][1]) for row in range(len(found))]
    classes = getattr(found, "classes", None) or [str(c) for c in range(int(np.max(labels)) + 1)]

    def open_picture(row: int) -> Image.Image:
        picture = found[row][0]
        return picture if isinstance(picture, Image.Image) else Image.fromarray(np.asarray(picture))

    return dataset(
        source=name,
        split=split,
        classes=[str(c) for c in classes],
        ids=[f"{name}/{split}/{row:06d}" for row in range(len(found))],
        labels=np.asarray(labels),
        transform=transform,
        open_picture=open_picture,
    )
