"""How is the next batch ready before it is asked for? Threads decode ahead, in exact order."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

AHEAD = 3
"""Batches that are decoded ahead; memory is bounded by them."""


class Batch(NamedTuple):
    """Pixels `(b, c, h, w)` float32, labels `(b,)` (-1: none) and indices `(b,)` of the images."""

    pixels: Tensor
    labels: Tensor
    images: NDArray[np.int64]


class Reader(Protocol):
    """Writes the pixels of one image into a place of a batch."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height, width."""

    def __call__(self, index: int, out: NDArray[np.float32]) -> None:
        """Write image `index` into `out (c, h, w)`."""


def read_batches(
    reader: Reader,
    labels: NDArray[np.int64],
    indices: NDArray[np.int64],
    *,
    batch_size: int,
    workers: int,
) -> Iterator[Batch]:
    """Batches of the images at `indices`; an image that fails raises where its batch is due."""
    starts = iter(range(0, len(indices), batch_size))
    pool = ThreadPoolExecutor(max(workers, 1), thread_name_prefix="routelab-decode")

    def begin(start: int) -> _Pending:
        chosen = indices[start : start + batch_size]
        pixels = np.empty((len(chosen), *reader.shape), np.float32)
        tasks = [pool.submit(reader, int(index), pixels[row]) for row, index in enumerate(chosen)]
        return _Pending(pixels, chosen, tasks)

    pending = deque(begin(start) for start in itertools.islice(starts, AHEAD))
    try:
        while pending:
            done = pending.popleft()
            for task in done.tasks:
                task.result()
            pending.extend(begin(start) for start in itertools.islice(starts, 1))
            yield Batch(
                torch.from_numpy(done.pixels), torch.from_numpy(labels[done.images]), done.images
            )
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


class _Pending(NamedTuple):
    """A batch that threads are filling."""

    pixels: NDArray[np.float32]
    images: NDArray[np.int64]
    tasks: list[Future[None]]
