"""How do rows of one array become the bytes of a Zarr v3 shard, and how are they read in place?

The format is that of Zarr's `sharding_indexed` codec, specified in
https://zarr-specs.readthedocs.io/en/latest/v3/codecs/sharding-indexed/ : the inner chunks, each
with its crc32c behind it, then an index of (offset, size) pairs and the index's own crc32c. Nothing
is compressed, so that chunks lie at a constant stride and a memory map is the array. zarr-python
reads the same bytes; it is the oracle of the tests.
"""

from __future__ import annotations

import json
import math
import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from routelab.records import Refusal
from routelab.store.files import Part

CHECKSUM = 4
ENTRY = 16
MISSING = np.uint64(2**64 - 1)
"""Offset and size of a chunk that a shard does not hold."""

Array = NDArray[Any]


@dataclass(frozen=True)
class Sharding:
    """Shape and cut of one array: rows (images) first, `chunk` rows a chunk, `shard` rows a shard.

    `shard` is a multiple of `chunk`; the last shard of an array may hold fewer rows.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunk: int
    shard: int

    @property
    def rows(self) -> int:
        """Length of the first axis."""
        return self.shape[0]

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of one row."""
        return self.shape[1:]

    @cached_property
    def chunk_bytes(self) -> int:
        """Bytes of a chunk, without its checksum."""
        return self.chunk * math.prod(self.row_shape) * self.dtype.itemsize

    @property
    def chunks(self) -> int:
        """Chunks a shard."""
        return self.shard // self.chunk

    @property
    def shards(self) -> int:
        """Shards of the whole array."""
        return -(-self.rows // self.shard)

    def file(self, folder: Path, shard: int) -> Path:
        """Path of shard number `shard` below the array's folder."""
        return folder / ".".join(["c", str(shard)] + ["0"] * len(self.row_shape))

    def rows_of(self, shard: int) -> int:
        """Rows that a shard has room for within the array."""
        return min(self.shard, self.rows - shard * self.shard)


def checksum(data: bytes | memoryview | Array) -> int:
    """crc32c of bytes that lie side by side."""
    view = np.frombuffer(data, np.uint8)
    view.flags.writeable = False
    return int(google_crc32c.value(view))


def encode_shard(rows: Array, sharding: Sharding) -> Iterator[Part]:
    """The bytes of a shard that holds these rows, `(r, …)` with r ≤ `sharding.shard`, in parts.

    Rows that fill only a part of their chunk are followed by zeros; chunks without any row are
    marked missing. The parts are views of `rows`: nothing is copied.
    """
    plain = np.ascontiguousarray(rows, dtype=sharding.dtype).reshape(-1).view(np.uint8)
    size = sharding.chunk_bytes
    for start in range(0, len(plain), size):
        chunk = plain[start : start + size]
        if len(chunk) < size:
            chunk = np.pad(chunk, (0, size - len(chunk)))
        yield chunk.data
        yield _little(checksum(chunk))
    index = _index(sharding.chunks, size + CHECKSUM, -(-len(rows) // sharding.chunk))
    yield index
    yield _little(checksum(index))


def _little(number: int) -> bytes:
    return number.to_bytes(CHECKSUM, "little")


@lru_cache
def _index(chunks: int, size: int, used: int) -> bytes:
    """(offset, size) of each chunk of a shard whose first `used` chunks are there."""
    index = np.full((chunks, 2), MISSING, dtype="<u8")
    index[:used, 0] = np.arange(used, dtype=np.uint64) * size
    index[:used, 1] = size
    return index.tobytes()


def map_shard(path: Path, sharding: Sharding) -> Array:
    """The rows of one shard, read-only and mapped into memory, `(r, …)`.

    Only the index's checksum is verified; `damaged_chunks` verifies the payload.

    Raises
    ------
    Refusal
        The file is missing, too short, or its index is damaged.
    """
    data = _mapped(path)
    tail = sharding.chunks * ENTRY + CHECKSUM
    index = data[-tail:-CHECKSUM].tobytes()
    if len(data) < tail or checksum(index) != int.from_bytes(data[-CHECKSUM:].tobytes(), "little"):
        raise damaged(path)
    stride = sharding.chunk_bytes + CHECKSUM
    used = (len(data) - tail) // stride
    if index != _index(sharding.chunks, stride, used) or used * stride + tail != len(data):
        raise damaged(path)
    row = sharding.chunk_bytes // sharding.chunk
    inner = np.empty(sharding.row_shape, sharding.dtype).strides
    shape = (used, sharding.chunk, *sharding.row_shape)
    mapped: Array = np.ndarray(shape, sharding.dtype, data, strides=(stride, row, *inner))
    return mapped[:, 0] if sharding.chunk == 1 else _join(mapped)


def _join(chunks: Array) -> Array:
    """Chunks `(c, rows, …)` as rows `(c·rows, …)`; a view where there is one chunk."""
    return chunks[0] if len(chunks) == 1 else chunks.reshape(-1, *chunks.shape[2:])


def damaged_chunks(path: Path, sharding: Sharding) -> list[int]:
    """Chunks of a shard whose bytes are not those that were written, by number in the shard."""
    map_shard(path, sharding)
    size = sharding.chunk_bytes
    data = _mapped(path)[: -(sharding.chunks * ENTRY + CHECKSUM)].reshape(-1, size + CHECKSUM)
    return [
        number
        for number, chunk in enumerate(data)
        if checksum(chunk[:size]) != int.from_bytes(chunk[size:].tobytes(), "little")
    ]


def damaged(path: Path) -> Refusal:
    """The answer to a file whose bytes are not whole."""
    return Refusal(
        f"{path} is damaged (truncated or overwritten); restore the file from a copy, "
        "or capture the store again with --overwrite"
    )


def missing(path: Path) -> Refusal:
    """The answer to a file that a commit promised."""
    return Refusal(
        f"{path} is missing though the store counts it as written; restore the file from a copy, "
        "or capture the store again with --overwrite"
    )


def _mapped(path: Path) -> NDArray[np.uint8]:
    try:
        with path.open("rb") as file:
            return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
    except FileNotFoundError:
        raise missing(path) from None
    except ValueError:  # an empty file cannot be mapped
        raise damaged(path) from None


def read_sharding(folder: Path) -> Sharding:
    """The sharding of an array from its `zarr.json`.

    Raises
    ------
    Refusal
        The array is missing, or is stored in a way that RouteLab does not write.
    """
    path = folder / "zarr.json"
    try:
        metadata = json.loads(path.read_bytes())
        [codec] = metadata["codecs"]
        chunk = codec["configuration"]["chunk_shape"]
        shard = metadata["chunk_grid"]["configuration"]["chunk_shape"]
        dtype = np.dtype(metadata["data_type"]).newbyteorder("<")
        return Sharding(tuple(metadata["shape"]), dtype, chunk[0], shard[0])
    except FileNotFoundError:
        raise Refusal(f"{path} is missing; the store is not whole") from None
    except (ValueError, KeyError, TypeError):
        raise damaged(path) from None
