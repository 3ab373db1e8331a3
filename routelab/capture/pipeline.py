"""How does a batch reach the disk while the next one is already running, in bounded memory?

A ring of preallocated host buffers (pinned for CUDA) and one writer thread. The forward thread
takes a free slot, copies into it and submits it; it waits when the writer lags, never drops, and
the waiting is measured. An error of the writer is raised in the forward thread at its next step.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

DEPTH = 3
"""Slots in the ring: one being filled, one being written, one between them."""


class Address(NamedTuple):
    """Where an array of a batch goes: `section` of the store, layer key (or ""), name."""

    section: str
    layer: str
    name: str


@dataclass(frozen=True)
class Field:
    """One array of a batch: shape without the image axis, dtype; `rows`: it has an image axis."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    rows: bool = True

    @property
    def bytes(self) -> int:
        """Bytes of one row (or of the whole array, where it has no image axis)."""
        return self.dtype.itemsize * int(np.prod(self.shape))


Layout = Mapping[Address, Field]


@dataclass
class Slot:
    """Host buffers of one batch; valid once `wait` has returned."""

    buffers: dict[Address, Tensor]
    start: int = 0
    filled: dict[Address, int] = field(default_factory=dict)
    labels: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    _sources: list[Tensor] = field(default_factory=list)
    _copied: torch.cuda.Event | None = None

    def begin(self, start: int, labels: NDArray[np.int64]) -> None:
        """Take the slot for the batch whose first image is number `start`."""
        self.start, self.labels = start, labels
        self.filled.clear()

    def put(self, address: Address, tensor: Tensor) -> None:
        """Cast and copy a tensor into its buffer, on the current stream and without waiting.

        A tensor on a CUDA device is kept alive until its copy is known to have ended.
        """
        buffer = self.buffers[address]
        rows = len(tensor) if buffer.dim() else 1
        target = buffer[:rows] if buffer.dim() else buffer
        if tensor.is_cuda:
            self._sources.append(tensor)
        target.copy_(tensor, non_blocking=tensor.is_cuda)
        self.filled[address] = rows

    def seal(self, stream: torch.cuda.Stream | None) -> None:
        """Mark the point of the copy stream after which the buffers are whole."""
        self._copied = stream.record_event() if stream is not None else None

    def wait(self) -> None:
        """Return when every copy into the slot has ended; then let go of what was copied."""
        if self._copied is not None:
            self._copied.synchronize()
        self._sources.clear()

    def array(self, address: Address) -> NDArray[np.generic]:
        """The rows that were put, as a view that is good until the slot is used again."""
        buffer = self.buffers[address]
        whole: NDArray[np.generic] = buffer.numpy()
        return whole[: self.filled[address]] if whole.ndim else whole


def allocate(layout: Layout, batch_size: int, device: torch.device) -> Slot:
    """A slot with room for one batch."""
    pinned = device.type == "cuda"
    return Slot(
        {
            address: torch.zeros(
                (batch_size, *column.shape) if column.rows else column.shape,
                dtype=column.dtype,
                pin_memory=pinned,
            )
            for address, column in layout.items()
        }
    )


class Pipeline:
    """The ring and its writer thread; a context manager that waits for the writer on leaving.

    Parameters
    ----------
    layout
        What a batch consists of.
    batch_size
        The largest batch.
    device
        Where the forward pass runs; CUDA gets pinned buffers and a copy stream of its own.
    write
        Called in the writer thread with each submitted slot, in order.
    depth
        Slots in the ring.
    """

    def __init__(
        self,
        layout: Layout,
        *,
        batch_size: int,
        device: torch.device,
        write: Callable[[Slot], None],
        depth: int = DEPTH,
    ) -> None:
        self.stall_seconds = 0.0
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._write = write
        self._error: BaseException | None = None
        self._free: queue.SimpleQueue[Slot] = queue.SimpleQueue()
        self._full: queue.SimpleQueue[Slot | None] = queue.SimpleQueue()
        for _ in range(depth):
            self._free.put(allocate(layout, batch_size, device))
        self._thread = threading.Thread(target=self._run, name="routelab-writer", daemon=True)

    def __enter__(self) -> Pipeline:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._full.put(None)
        self._thread.join()
        if error is None:
            self._raise()

    def acquire(self, start: int, labels: NDArray[np.int64]) -> Slot:
        """A free slot for the batch that begins at image `start`; waits while there is none.

        The labels `(B,)` travel with the batch to the writer.

        Raises
        ------
        BaseException
            Whatever stopped the writer thread.
        """
        began = time.perf_counter()
        slot = self._free.get()
        self.stall_seconds += time.perf_counter() - began
        self._raise()
        slot.begin(start, labels)
        return slot

    @contextmanager
    def copying(self) -> Iterator[None]:
        """Copy on the side stream, after what the forward pass has computed so far (CUDA only)."""
        if self.stream is None:
            yield
            return
        self.stream.wait_stream(torch.cuda.current_stream(self.stream.device))
        with torch.cuda.stream(self.stream):
            yield

    def submit(self, slot: Slot) -> None:
        """Hand a filled slot to the writer."""
        slot.seal(self.stream)
        self._full.put(slot)

    def _raise(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _run(self) -> None:
        failed = False
        while (slot := self._full.get()) is not None:
            if not failed:
                try:
                    slot.wait()
                    self._write(slot)
                except BaseException as error:  # raised again in the forward thread
                    self._error, failed = error, True
            self._free.put(slot)
