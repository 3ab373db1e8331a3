"""How does a capture put its batches into a store so that it can be killed at any moment?

Every file is written whole under a temporary name and renamed. A commit writes the shards in
progress, then the sums, and replaces the store's card last; readers believe the card. What lies
beyond the committed images is overwritten by the same bytes when the capture is resumed.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from routelab.records import Certificate, Refusal, StoreCard
from routelab.store import creation
from routelab.store.columns import GrowingArray
from routelab.store.creation import Columns, Plan
from routelab.store.layout import FORMAT, Column, write_card, write_group
from routelab.store.lock import WriterLock
from routelab.store.resuming import Stored, reopen, tidy
from routelab.store.sums import Arrays, Shapes, remove_states

__all__ = ["Batch", "Column", "StoreWriter"]

COMMIT_SECONDS = 5.0
"""Least time between two commits that the writer makes by itself; no stored byte shows it."""

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)

LayerArrays = Mapping[str, Mapping[str, NDArray[Any]]]


@dataclass(frozen=True)
class Batch:
    """What one batch of b images leaves in the store.

    Attributes
    ----------
    images
        Columns of `images/` by name, (b, …).
    tables
        Per-image tables by layer key and name, (b, …).
    full
        Full routing by layer key and name, (r, …): the first r images of the batch, r not less than
        the number of its images below `card.capture.full`.
    sums
        Increments of the running sums by layer key and name; the writer adds them in float64.
    batch_rows
        One row a batch by layer key and name, for example the hits of each expert.
    """

    images: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    tables: LayerArrays = field(default_factory=dict)
    full: LayerArrays = field(default_factory=dict)
    sums: Arrays = field(default_factory=dict)
    batch_rows: Arrays = field(default_factory=dict)


class StoreWriter:
    """Writes one store; made by `create` or `resume`, closed by `finish` or `close`.

    Attributes
    ----------
    path
        The store.
    card
        Its card as it was last committed.
    images
        Images that the store will hold.
    """

    def __init__(self, path: Path, stored: Stored) -> None:
        self.path = path
        self._lock = WriterLock(path)
        self.card = stored.card
        self.images = stored.images
        self._appended = stored.card.committed
        self._columns = stored.columns
        self._sums = stored.sums
        self._last_commit = time.monotonic()

    @classmethod
    def create(
        cls,
        path: str | Path,
        card: StoreCard,
        *,
        images: int,
        ids: Sequence[str],
        labels: ArrayLike,
        tables: Columns | None = None,
        full: Columns | None = None,
        image_columns: Mapping[str, Column] | None = None,
        sums: Shapes | None = None,
        batch_rows: Shapes | None = None,
        lineage: Mapping[str, NDArray[np.int64]] | None = None,
        overwrite: bool = False,
    ) -> StoreWriter:
        """Make an empty store.

        Parameters
        ----------
        path
            Where; nothing may be there, or a store if `overwrite`.
        card
            What is captured; format, committed and complete are set here.
        images, ids, labels
            Number of images, their distinct ids and classes (-1: no label), in capture order.
        tables, full
            Arrays of each layer, by layer key and name; `full` ones for the first
            `card.capture.full` images.
        image_columns
            Arrays of `images/` that the batches bring; `thumbnail` for the full images only.
        sums, batch_rows
            Shapes of the sums over images, and of the rows kept one a batch, by layer key and name.
        lineage
            Indices of a recycled model's origin, by name.
        overwrite
            Replace a store that is there; it is removed after the new one is in place.

        Raises
        ------
        Refusal
            Something is at `path`, two images have one id, or the disk is full.
        """
        path = Path(path)
        blank = {"format": FORMAT, "committed": 0, "complete": False}
        card = card.model_copy(update=blank)
        plan = Plan(
            images,
            list(ids),
            np.asarray(labels, np.int64),
            tables or {},
            full or {},
            image_columns or {},
            sums or {},
            batch_rows or {},
            lineage or {},
        )
        with refuse_full_disk(f"{path} was not made, nothing is lost; free some space"):
            creation.create(path, card, plan, overwrite=overwrite)
            return cls(path, reopen(path, card))

    @classmethod
    def resume(cls, path: str | Path, card: StoreCard) -> StoreWriter:
        """Continue a store at `committed`.

        Raises
        ------
        Refusal
            There is nothing to resume, `card` is not the one that the store was made with, or
            another capture is writing it.
        """
        return cls(Path(path), reopen(Path(path), card))

    @property
    def committed(self) -> int:
        """Images that are safely stored."""
        return self.card.committed

    def append(self, batch: Batch) -> None:
        """Take one batch; full shards go to the disk, and at times a commit is made.

        Raises
        ------
        Refusal
            The disk is full.
        ValueError
            An array is missing or has another shape or number of rows.
        """
        count = self._due()
        with self._safely():
            for (layer, name), column in self._columns.items():
                column.append(self._rows(batch, layer, name, column, count))
            self._sums.add(batch.sums, batch.batch_rows)
            self._appended += count
            boundary = self._appended % self.card.capture.shard == 0
            if boundary and time.monotonic() - self._last_commit >= COMMIT_SECONDS:
                self._commit()

    def commit(self) -> None:
        """Make every image that was appended safe."""
        with self._safely():
            self._commit()

    def refuse_layer(self, layer: str, reason: str) -> None:
        """Leave a layer out of the store from here on, and keep the reason in its card."""
        layers = tuple(spec for spec in self.card.layers if spec.key != layer)
        refused = {**self.card.refused, layer: reason}
        self.card = self.card.model_copy(update={"layers": layers, "refused": refused})
        self._columns = {key: c for key, c in self._columns.items() if key[0] != layer}
        self._sums.drop(layer)

    def finish(self, certificate: Certificate, timing: Mapping[str, Any] | None = None) -> None:
        """Commit, write the totals and the certificate, and mark the store complete.

        Parameters
        ----------
        certificate
            Part of the stored bytes: leave out what differs from run to run.
        timing
            Everything that does: times, speeds, stalls. Kept apart, in `timing/`.

        Raises
        ------
        ValueError
            Images are missing.
        """
        if self._appended != self.images:
            raise ValueError(f"{self._appended} of {self.images} images were appended")
        with self._safely():
            self._commit()
            self._sums.publish(self.path)
            write_group(self.path / "timing", dict(timing or {}))
            done = {"certificate": certificate, "complete": True}
            self.card = self.card.model_copy(update=done)
            write_card(self.path, self.card)
            tidy(self.path, self.card)
        self.close()

    def close(self) -> None:
        """Let go of buffers and lock; images that were not committed are not in the store."""
        self._columns = {}
        self._lock.release()

    def __enter__(self) -> StoreWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _commit(self) -> None:
        """Shards, then sums, then the card; old sums are removed when nothing needs them."""
        if self._appended > self.committed:
            for column in self._columns.values():
                column.flush()
            self._sums.save(self.path, self._appended)
            self.card = self.card.model_copy(update={"committed": self._appended})
            write_card(self.path, self.card)
            remove_states(self.path, keep=self._appended)
        self._last_commit = time.monotonic()

    def _due(self) -> int:
        """Images in the next batch: all batches but the last are full."""
        return min(self.card.capture.batch_size, self.images - self._appended)

    def _rows(
        self, batch: Batch, layer: str, name: str, column: GrowingArray, count: int
    ) -> NDArray[Any]:
        """The rows of one array, as many as it still takes from this batch."""
        sharding = column.sharding
        wanted = min(count, sharding.rows - column.filled)
        if wanted == 0:
            return np.empty((0, *sharding.row_shape), sharding.dtype)
        given = _arrays(batch, layer)
        if name not in given:
            raise ValueError(f"a batch must bring {_place(layer, name)}")
        rows: NDArray[Any] = np.asarray(given[name])
        if len(rows) < wanted or (sharding.rows == self.images and len(rows) > wanted):
            raise ValueError(f"{_place(layer, name)} has {len(rows)} rows, {wanted} are due")
        return rows[:wanted]

    @contextmanager
    def _safely(self) -> Iterator[None]:
        """A full disk is the user's to mend, and nothing committed is lost by it."""
        with refuse_full_disk(
            f"{self.committed} of {self.images} images are safe in {self.path}; "
            "free some space and continue with --resume"
        ):
            yield


def _arrays(batch: Batch, layer: str) -> dict[str, NDArray[Any]]:
    """All arrays of rows that a batch brings for one layer, or for `images/`."""
    if not layer:
        return dict(batch.images)
    return {**batch.tables.get(layer, {}), **batch.full.get(layer, {})}


def _place(layer: str, name: str) -> str:
    return f"layers/{layer}/{name}" if layer else f"images/{name}"


@contextmanager
def refuse_full_disk(safe: str) -> Iterator[None]:
    """Turn "no space left on device" into one sentence that says what is safe."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        raise Refusal(f"the disk is full: {safe}") from None
