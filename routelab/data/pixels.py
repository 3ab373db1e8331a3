"""How does an image become numbers? Resize, centre-crop, scale and normalise, as the card says."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from timm.data.transforms_factory import create_transform

from routelab.records import Refusal, Transform

PixelArray = NDArray[np.float32]

UNREADABLE = (OSError, SyntaxError, ValueError, Image.DecompressionBombError)
"""What Pillow raises for a file that is damaged, or is no image."""


class PixelReader:
    """Reads an image by its index and makes pixels of it, float32 `(c, h, w)`.

    timm's own evaluation transform resizes and crops; scaling and normalising are one multiply-add
    in NumPy, which leaves torch's threads to the model.
    """

    def __init__(
        self, read: Callable[[int], Image.Image], ids: Sequence[str], transform: Transform
    ) -> None:
        self.read, self.ids, self.transform = read, ids, transform
        self.levels = _levels(transform)
        mean, std = (per_channel(v, transform) for v in (transform.mean, transform.std))
        self.scale = (1 / (255 * std))[:, None, None]
        self.offset = (-mean / std)[:, None, None]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height, width."""
        return self.transform.channels, self.transform.size, self.transform.size

    def __call__(self, index: int, out: PixelArray) -> None:
        """Write the pixels of one image into `out (c, h, w)`."""
        self.normalize(self.unsigned(index), out)

    def unsigned(self, index: int) -> NDArray[np.uint8]:
        """Levels 0 to 255 of one image after resizing and cropping, `(c, h, w)`.

        Raises
        ------
        Refusal
            The image cannot be read.
        """
        try:
            with self.read(index) as image:
                return self.levels(in_mode(image, self.transform.channels))
        except UNREADABLE as error:
            raise Refusal(
                f"image {self.ids[index]} cannot be read ({error}); repair or remove it, "
                "or leave unreadable images out with --skip-corrupt"
            ) from error

    def normalize(self, levels: NDArray[np.uint8], out: PixelArray) -> None:
        """Levels to pixels: (levels / 255 - mean) / std."""
        np.multiply(levels, self.scale, out=out, casting="same_kind")
        out += self.offset


def in_mode(image: Image.Image, channels: int) -> Image.Image:
    """The image as grey (1 channel) or RGB (3); 16-bit grey keeps its high byte."""
    if image.mode.startswith("I;16"):
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return image.convert("L" if channels == 1 else "RGB")


def per_channel(values: Sequence[float], transform: Transform) -> PixelArray:
    """One value a channel: as given, or the only one for all.

    Raises
    ------
    Refusal
        Another number of values.
    """
    if len(values) not in (1, transform.channels) or transform.channels not in (1, 3):
        raise Refusal(
            f"the transform has {len(values)} means or deviations for {transform.channels} "
            "channels; give one for each of 1 or 3 channels, or one for all"
        )
    return np.broadcast_to(np.asarray(values, np.float32), (transform.channels,)).copy()


def _levels(transform: Transform) -> Callable[[Image.Image], NDArray[np.uint8]]:
    """The evaluation transform of timm up to uint8 levels `(c, h, w)`."""
    made: Callable[[Image.Image], NDArray[np.uint8]] = create_transform(
        (transform.channels, transform.size, transform.size),
        is_training=False,
        interpolation=transform.interpolation,
        crop_pct=transform.crop,
        use_prefetcher=True,
    )
    return made
