"""What is a data set? A fixed sequence of images, each with a stable id and perhaps a label."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from routelab.data.batches import Batch, read_batches
from routelab.data.pixels import PixelReader
from routelab.records import DataCard, Refusal, Transform

ReadImage = Callable[[int], Image.Image]


@dataclass(frozen=True, eq=False)
class Images:
    """Images in a fixed order, decoded only when they are asked for.

    Attributes
    ----------
    card
        Source, split, classes, number of images, hash of ids and labels, files left out.
    ids
        Stable id of each image: its path relative to the folder, or its place in the data set.
    labels
        Class of each image (n,), an index into `classes`; -1 where there is none.
    transform
        How pixels are made.
    read
        The image at an index, as Pillow has it.
    """

    card: DataCard
    ids: tuple[str, ...]
    labels: NDArray[np.int64]
    transform: Transform
    read: ReadImage

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names, by label."""
        return self.card.classes

    def batches(
        self,
        batch_size: int,
        *,
        start: int = 0,
        limit: int | None = None,
        order: Sequence[int] | NDArray[np.int64] | None = None,
        workers: int = 2,
    ) -> Iterator[Batch]:
        """Batches in exact order, decoded ahead in background threads.

        Parameters
        ----------
        batch_size
            Images a batch; the last one may be smaller.
        start
            Index of the first image, where a broken-off run goes on.
        limit
            Images from `start` on; None: all.
        order
            Indices in another order, for training; `start` and `limit` then count along it.
        workers
            Threads that decode.

        Yields
        ------
        Batch
            `pixels (b, c, h, w)` float32, `labels (b,)`, `images (b,)` indices.

        Raises
        ------
        Refusal
            An image that cannot be read, by its id.
        """
        indices = np.arange(len(self)) if order is None else np.asarray(order, dtype=np.int64)
        stop = None if limit is None else start + limit
        return read_batches(
            self.pixels, self.labels, indices[start:stop], batch_size=batch_size, workers=workers
        )

    @property
    def pixels(self) -> PixelReader:
        """Reader of transformed pixels; makes one float32 array `(c, h, w)` of an index."""
        return PixelReader(self.read, self.ids, self.transform)

    def first(self, count: int | None) -> Images:
        """The first `count` images as a data set of its own; None: all."""
        if count is None or count >= len(self):
            return self
        return self.subset(np.arange(count))

    def subset(self, indices: NDArray[np.int64]) -> Images:
        """The images at these indices, in this order."""
        ids = tuple(self.ids[i] for i in indices)
        labels = self.labels[indices]
        update = {"images": len(ids), "sha256": fingerprint(ids, labels)}
        chosen, read = indices.tolist(), self.read
        return Images(
            card=self.card.model_copy(update=update),
            ids=ids,
            labels=labels,
            transform=self.transform,
            read=lambda index: read(chosen[index]),
        )


def make_images(
    source: str,
    split: str,
    ids: Sequence[str],
    labels: Sequence[int] | NDArray[np.int64],
    classes: Sequence[str],
    transform: Transform,
    read: ReadImage,
    *,
    skipped: Sequence[str] = (),
) -> Images:
    """A data set with its card; refuses one without images."""
    if not ids:
        raise Refusal(f"{source} holds no image{f' in split {split!r}' if split else ''}")
    array = np.asarray(labels, dtype=np.int64)
    card = DataCard(
        source=source,
        split=split,
        classes=tuple(classes),
        images=len(ids),
        sha256=fingerprint(ids, array),
        skipped=tuple(skipped),
    )
    return Images(card=card, ids=tuple(ids), labels=array, transform=transform, read=read)


def fingerprint(ids: Sequence[str], labels: NDArray[np.int64]) -> str:
    """SHA-256 of the ordered ids and labels: the same images in the same order, or not."""
    digest = hashlib.sha256()
    for name, label in zip(ids, labels.tolist(), strict=True):
        digest.update(f"{name}\0{label}\n".encode())
    return digest.hexdigest()
