"""What does a network see of a photograph in training? Crops, RandAugment, erasing, by timm.

Each image's random numbers follow from seed, epoch and index alone, whichever process draws it: an
epoch that was broken off goes on with the same pixels.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from pydantic import Field
from timm.data.transforms_factory import create_transform
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from routelab.data.batches import Batch
from routelab.data.images import Images
from routelab.data.pixels import UNREADABLE, in_mode
from routelab.records import Record, Refusal, Transform


class Pictures(Record):
    """timm's training transform of image files, drawn anew in each epoch."""

    smallest_crop: float = Field(
        default=0.08, gt=0, le=1, description="area of the smallest crop, as a share of the image"
    )
    mirror: float = Field(default=0.5, ge=0, le=1, description="share of images flipped")
    rand_augment: str = Field(
        default="", description="timm's name of a policy, rand-m9-mstd0.5; empty: none"
    )
    color_jitter: float = Field(
        default=0.0, ge=0, description="brightness, contrast and saturation; not with rand_augment"
    )
    erasing: float = Field(default=0.0, ge=0, le=1, description="share of images with a box")
    erasing_fill: str = Field(
        default="pixel", pattern="^(const|rand|pixel)$", description="timm's re_mode"
    )


@dataclass(frozen=True, eq=False)
class AugmentedImages:
    """Images that are transformed by `pictures` instead of the fixed transform of evaluation."""

    images: Images
    pictures: Pictures
    seed: int = 0
    workers: int = 2
    epoch: int = 0

    def __len__(self) -> int:
        return len(self.images)

    @property
    def labels(self) -> NDArray[np.int64]:
        """Class of each image (n,)."""
        return self.images.labels

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names, by label."""
        return self.images.classes

    def at_epoch(self, epoch: int) -> AugmentedImages:
        """The same images with the random numbers of another epoch."""
        return replace(self, epoch=epoch)

    def batches(
        self, batch_size: int, *, order: Sequence[int] | NDArray[np.int64] | None = None
    ) -> Iterator[Batch]:
        """Batches as `Images.batches` gives them; `workers` processes draw them ahead."""
        indices = np.arange(len(self)) if order is None else np.asarray(order, dtype=np.int64)
        chosen = [indices[i : i + batch_size] for i in range(0, len(indices), batch_size)]
        loader: DataLoader[Tensor] = DataLoader(
            _Drawn(self),
            batch_sampler=[part.tolist() for part in chosen],
            num_workers=self.workers,
            generator=torch.Generator(),  # leaves the caller's random state alone
        )
        try:
            for part, pixels in zip(chosen, loader, strict=True):
                yield Batch(pixels, torch.from_numpy(self.labels[part]), part)
        except Refusal as error:  # a worker process wraps it into its traceback
            raise Refusal(str(error).strip().splitlines()[-1].split("Refusal: ")[-1]) from error


class _Drawn(Dataset[Tensor]):
    """Pixels of one image, drawn with random numbers of its own."""

    def __init__(self, source: AugmentedImages) -> None:
        self.source = source
        self.transform = training_transform(source.pictures, source.images.transform)

    def __getitem__(self, index: int) -> Tensor:
        source, images = self.source, self.source.images
        with drawing_from(source.seed, source.epoch, index):
            try:
                with images.read(index) as image:
                    return self.transform(in_mode(image, images.transform.channels))
            except UNREADABLE as error:
                raise Refusal(
                    f"image {images.ids[index]} cannot be read ({error}); repair or remove it"
                ) from error


def training_transform(pictures: Pictures, transform: Transform) -> Callable[[Image.Image], Tensor]:
    """Timm's training transform, of the size and normalisation that the model was made for."""
    jitter: Any = pictures.color_jitter or None
    made: Callable[[Image.Image], Tensor] = create_transform(
        (transform.channels, transform.size, transform.size),
        is_training=True,
        scale=(pictures.smallest_crop, 1.0),
        hflip=pictures.mirror,
        color_jitter=jitter,
        auto_augment=pictures.rand_augment or None,
        interpolation=transform.interpolation,
        mean=transform.mean,
        std=transform.std,
        re_prob=pictures.erasing,
        re_mode=pictures.erasing_fill,
    )
    return made


@contextmanager
def drawing_from(*numbers: int) -> Iterator[None]:
    """Seed the three generators that timm draws from, and put them back afterwards."""
    words = np.random.SeedSequence(numbers).generate_state(3)
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    random.seed(int(words[0]))
    np.random.seed(int(words[1]))  # noqa: NPY002
    torch.default_generator.manual_seed(int(words[2]))
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        torch.set_rng_state(states[2])
