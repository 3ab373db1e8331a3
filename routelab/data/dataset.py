"""Which pixels, label and id, in which order? One value for every source of images."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from routelab.data.transforms import ToPixels, evaluation_transform, thumbnail
from routelab.records import DataCard, Refusal, Transform


class Batch(NamedTuple):
    """Rows start to stop: pixels `(b, c, h, w)` float32 and labels `(b,)` int64."""

    pixels: Tensor
    labels: Tensor
    start: int
    stop: int


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images in a fixed order, each with a stable id and a label (-1: none).

    `open_picture(row)` decodes one; `to_pixels` makes the model's input of it.
    """

    card: DataCard
    ids: tuple[str, ...]
    labels: NDArray[np.int64]
    transform: Transform
    open_picture: Callable[[int], Image.Image]
    to_pixels: ToPixels = field(repr=False)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names by label; empty where images have no labels."""
        return self.card.classes

    def pixels(self, row: int) -> Tensor:
        """One image, `(c, h, w)` float32.

        Raises
        ------
        Refusal
            If the picture cannot be decoded, by its id.
        """
        try:
            return self.to_pixels(in_mode(self.open_picture(row), self.transform.channels))
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            raise Refusal(
                f"image {self.ids[row]} of {self.card.source} cannot be read ({error}); "
                "repair or remove it, or skip unreadable images"
            ) from error

    def batches(
        self,
        batch_size: int,
        *,
        start: int = 0,
        stop: int | None = None,
        workers: int = 2,
        order: Sequence[int] | None = None,
    ) -> Iterator[Batch]:
        """Batches in order, decoded ahead in threads; `order` (rows) replaces the natural order."""
        rows = range(len(self)) if order is None else order
        stop = len(rows) if stop is None else min(stop, len(rows))
        spans = [(a, min(a + batch_size, stop)) for a in range(start, stop, batch_size)]
        with ThreadPoolExecutor(max(1, workers)) as pool:
            waiting: list[tuple[tuple[int, int], list[Future[Tensor]]]] = []
            coming = iter(spans)
            try:
                for span in islice(coming, 3):
                    waiting.append(
                        (span, [pool.submit(self.pixels, rows[i]) for i in range(*span)])
                    )
                while waiting:
                    (first, last), futures = waiting.pop(0)
                    pixels = torch.stack([future.result() for future in futures])
                    for span in islice(coming, 1):
                        waiting.append(
                            (span, [pool.submit(self.pixels, rows[i]) for i in range(*span)])
                        )
                    labels = torch.from_numpy(self.labels[[rows[i] for i in range(first, last)]])
                    yield Batch(pixels, labels, first, last)
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def thumbnails(self, start: int, stop: int, *, side: int = 112) -> NDArray[np.uint8]:
        """What the model sees of images `start` to `stop`, `(n, side, side, 3)` uint8."""
        rows = [thumbnail(self.open_picture(i), self.transform, side) for i in range(start, stop)]
        return np.stack(rows) if rows else np.zeros((0, side, side, 3), dtype=np.uint8)

    def subset(self, rows: Sequence[int]) -> Dataset:
        """The same data set with these rows only, in this order."""
        rows = list(rows)
        ids = tuple(self.ids[i] for i in rows)
        labels = self.labels[rows]
        card = self.card.model_copy(
            update={"images": len(rows), "sha256": listing_sha256(ids, labels)}
        )
        return Dataset(
            card, ids, labels, self.transform, lambda i: self.open_picture(rows[i]), self.to_pixels
        )

    def with_pixels(self, to_pixels: ToPixels) -> Dataset:
        """The same data set through another transform, for example with augmentation."""
        return Dataset(
            self.card, self.ids, self.labels, self.transform, self.open_picture, to_pixels
        )


def dataset(
    *,
    source: str,
    split: str,
    classes: Sequence[str],
    ids: Sequence[str],
    labels: Sequence[int] | NDArray[np.int64],
    transform: Transform,
    open_picture: Callable[[int], Image.Image],
    skipped: Sequence[str] = (),
) -> Dataset:
    """A data set for evaluation, with its card."""
    numbers = np.asarray(labels, dtype=np.int64)
    card = DataCard(
        source=source,
        split=split,
        classes=tuple(classes),
        images=len(ids),
        sha256=listing_sha256(ids, numbers),
        skipped=tuple(skipped),
    )
    return Dataset(
        card, tuple(ids), numbers, transform, open_picture, evaluation_transform(transform)
    )


def listing_sha256(ids: Sequence[str], labels: NDArray[np.int64]) -> str:
    """Digest of the ordered ids and labels: two runs over the same list agree on it."""
    digest = hashlib.sha256()
    for name, label in zip(ids, labels, strict=True):
        digest.update(f"{name}\0{label}\n".encode())
    return digest.hexdigest()


def in_mode(picture: Image.Image, channels: int) -> Image.Image:
    """The picture in grey (1 channel) or colour (3)."""
    return picture.convert("L" if channels == 1 else "RGB")
