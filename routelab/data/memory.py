"""How is an image read a hundred times without decoding it a hundred times? As levels in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from routelab.data.batches import Batch
from routelab.data.images import Images


@dataclass(frozen=True, eq=False)
class InMemory:
    """A data set whose pixels are held as uint8, for training that reads each image many times."""

    images: Images
    levels: NDArray[np.uint8]

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

    def batches(
        self, batch_size: int, *, order: Sequence[int] | NDArray[np.int64] | None = None
    ) -> Iterator[Batch]:
        """Batches as `Images.batches` gives them, and equal to them."""
        reader = self.images.pixels
        indices = np.arange(len(self)) if order is None else np.asarray(order, dtype=np.int64)
        for place in range(0, len(indices), batch_size):
            chosen = indices[place : place + batch_size]
            pixels = np.empty((len(chosen), *reader.shape), np.float32)
            reader.normalize(self.levels[chosen], pixels)
            labels = torch.from_numpy(self.labels[chosen])
            yield Batch(torch.from_numpy(pixels), labels, chosen)


def in_memory(images: Images, *, workers: int = 2) -> InMemory:
    """Decode every image once and keep its levels: n · c · h · w bytes."""
    reader = images.pixels
    levels = np.empty((len(images), *reader.shape), np.uint8)

    def fill(index: int) -> None:
        levels[index] = reader.unsigned(index)

    with ThreadPoolExecutor(workers) as pool:
        for _ in pool.map(fill, range(len(images))):
            pass
    return InMemory(images, levels)
