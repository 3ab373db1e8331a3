"""How does a picture become pixels? timm's transforms, as a card describes them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from timm.data.transforms_factory import create_transform
from torch import Tensor

from routelab.records import Transform

ToPixels = Callable[[Image.Image], Tensor]


def evaluation_transform(transform: Transform) -> ToPixels:
    """Resize, centre-crop and normalise: pixels `(c, h, w)` float32."""
    return create_transform(
        input_size=(transform.channels, transform.size, transform.size),
        is_training=False,
        interpolation=transform.interpolation,
        mean=transform.mean,
        std=transform.std,
        crop_pct=transform.crop,
    )


def training_transform(transform: Transform, *, flip: float = 0.5, scale: float = 0.6) -> ToPixels:
    """Random resized crop and flip: pixels `(c, h, w)` float32; `scale` is the smallest area."""
    return create_transform(
        input_size=(transform.channels, transform.size, transform.size),
        is_training=True,
        interpolation=transform.interpolation,
        mean=transform.mean,
        std=transform.std,
        scale=(scale, 1.0),
        hflip=flip,
        color_jitter=0.0,
    )


def thumbnail(picture: Image.Image, transform: Transform, side: int) -> NDArray[np.uint8]:
    """What the model saw of a picture, `(side, side, 3)` uint8: the same crop, in colour."""
    width, height = picture.size
    kept = min(width, height) * transform.crop
    left, top = (width - kept) / 2, (height - kept) / 2
    box = (left, top, left + kept, top + kept)
    small = picture.convert("RGB").resize((side, side), Image.Resampling.BICUBIC, box=box)
    return np.asarray(small, dtype=np.uint8)
