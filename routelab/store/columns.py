"""How do rows that come batch by batch become whole shards, with one shard of memory an array?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from routelab.store.files import write_whole
from routelab.store.shards import Sharding, encode_shard, map_shard


class GrowingArray:
    """An array of the store that is being written, one row an image, in order.

    A shard is written when it is full, and at every commit as far as it has come: the file is
    replaced whole, so what was committed stays readable at every moment.

    Parameters
    ----------
    folder
        The array's folder, with its metadata in place.
    sharding
        Its shape and cut.
    committed
        Images that are stored already; the rows of the shard in progress are read back.
    """

    def __init__(self, folder: Path, sharding: Sharding, committed: int = 0) -> None:
        self.folder = folder
        self.sharding = sharding
        self.filled = min(committed, sharding.rows)
        self._buffer = np.zeros((sharding.shard, *sharding.row_shape), sharding.dtype)
        self._written = self.filled
        begun = self.filled % sharding.shard
        if begun:
            file = sharding.file(folder, self.filled // sharding.shard)
            self._buffer[:begun] = map_shard(file, sharding)[:begun]

    def append(self, rows: NDArray[Any]) -> None:
        """Take the rows of the next images; those beyond the array's end are not kept.

        Raises
        ------
        ValueError
            The rows are of another shape.
        """
        if rows.shape[1:] != self.sharding.row_shape:
            raise ValueError(
                f"{self.folder.name}: rows of shape {rows.shape[1:]} given, "
                f"{self.sharding.row_shape} expected"
            )
        rows = rows[: self.sharding.rows - self.filled]
        while len(rows):
            begun = self.filled % self.sharding.shard
            taken = rows[: self.sharding.shard - begun]
            np.copyto(self._buffer[begun : begun + len(taken)], taken, casting="same_kind")
            self.filled += len(taken)
            rows = rows[len(taken) :]
            if self.filled % self.sharding.shard == 0:
                self.flush()

    def flush(self) -> None:
        """Write the shard in progress as far as it has come."""
        if self._written == self.filled:
            return
        number = (self.filled - 1) // self.sharding.shard
        begun = self.filled - number * self.sharding.shard
        file = self.sharding.file(self.folder, number)
        write_whole(file, encode_shard(self._buffer[:begun], self.sharding))
        self._written = self.filled
