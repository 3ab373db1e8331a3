"""Where does everything lie in a store, and how are its empty arrays made?

::

    NAME.zarr/
      zarr.json          its attributes hold the StoreCard; replaced last: the commit record
      images/            label, id, prediction, probability, thumbnail
      layers/06/         per-image tables (one row an image) and full arrays (the first images)
      lineage/           of a recycled model: source neurons and channels of its experts
      totals/06/         sums over images; written when the store is complete
      state-128.npz      the sums of the first 128 images, until then
      results/NAME/      one group a saved Result, in its attributes
      timing/            attributes: all that may differ between two runs of one capture
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from routelab.records import Refusal, StoreCard
from routelab.store.files import write_whole
from routelab.store.shards import Sharding, damaged, missing

FORMAT = 1
"""Version of the layout; a reader refuses another."""

METADATA = "zarr.json"
CARD = "routelab"
LINEAGE = "lineage"
TABLE_ROWS = 1024
"""Rows a shard of the per-image tables."""
ID_ROWS = 65536

DIMS: Mapping[str, tuple[str, ...]] = {
    "profile": ("expert",),
    "hits": ("expert",),
    "output_norm": ("expert",),
    "gate_probs_profile": ("expert",),
    "prefix_mass": ("prefix", "expert"),
    "pooled": ("width",),
    "pooled_output": ("width",),
    "class_token": ("width",),
    "class_token_output": ("width",),
    "logits": ("token", "slot"),
    "dispatch": ("token", "slot"),
    "combine": ("token", "slot"),
    "expert": ("token", "choice"),
    "gate": ("token", "choice"),
    "slot": ("token", "choice"),
    "probs": ("token", "expert"),
    "tokens": ("token", "width"),
    "thumbnail": ("height", "breadth", "colour"),
}
"""Names of the axes behind the image axis, for readers such as xarray."""


@dataclass(frozen=True)
class Column:
    """One array with a row an image: shape of a row, and dtype by NumPy name ("float32")."""

    shape: tuple[int, ...]
    dtype: str


def layer_folder(path: Path, layer: str) -> Path:
    """Folder of a layer's arrays."""
    return path / "layers" / layer


def totals_folder(path: Path, layer: str) -> Path:
    """Folder of a layer's sums over images."""
    return path / "totals" / layer


def write_group(folder: Path, attributes: Mapping[str, Any]) -> None:
    """Write a Zarr group with these attributes, or replace its attributes in one step."""
    folder.mkdir(exist_ok=True)
    metadata = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
    text = json.dumps(metadata, indent=1, ensure_ascii=False)
    write_whole(folder / METADATA, [text.encode("utf-8", "surrogatepass")])


def read_attributes(folder: Path) -> dict[str, Any]:
    """Attributes of a Zarr node; FileNotFoundError, KeyError or ValueError where it is none."""
    text = (folder / METADATA).read_bytes().decode("utf-8", "surrogatepass")
    attributes = json.loads(text)["attributes"]
    if not isinstance(attributes, dict):
        raise ValueError("attributes are not an object")
    return attributes


def write_card(path: Path, card: StoreCard) -> None:
    """Replace the card: the one step by which a commit becomes true."""
    write_group(path, {CARD: card.model_dump(mode="json")})


def is_store(path: Path) -> bool:
    """True if a RouteLab store of any version is at `path`."""
    try:
        return "format" in read_attributes(path)[CARD]
    except (OSError, ValueError, KeyError, TypeError):
        return False


def read_card(path: Path) -> StoreCard:
    """The card of the store at `path`.

    Raises
    ------
    Refusal
        Nothing is there, it is not a RouteLab store, or one of another format version.
    """
    if not path.exists():
        raise Refusal(f"{path} does not exist; make a store with `routelab capture`")
    if not is_store(path):
        raise Refusal(
            f"{path} is not a RouteLab store (no card in its {METADATA}); give the folder that "
            "`routelab capture --out` wrote"
        )
    stored = read_attributes(path)[CARD]
    if stored["format"] != FORMAT:
        raise Refusal(
            f"{path} has format {stored['format']}, this RouteLab reads format {FORMAT}; "
            "capture it again, or read it with the version that wrote it"
        )
    try:
        return StoreCard.model_validate(stored)
    except ValueError as error:
        reason = str(error).splitlines()[-1].strip()
        raise Refusal(f"the card of {path} cannot be read: {reason}; capture it again") from None


def cut(column: Column, rows: int, *, shard: int = 0) -> Sharding:
    """How an array is cut: a table in long shards of one chunk, full routing image by image."""
    shape = (rows, *column.shape)
    if shard:
        return Sharding(shape, np.dtype(column.dtype), 1, min(shard, rows))
    together = min(TABLE_ROWS, rows)
    return Sharding(shape, np.dtype(column.dtype), together, together)


def create_rows(folder: Path, sharding: Sharding, *, axis: str) -> None:
    """Metadata of an empty array of rows; `axis` names its first axis."""
    import zarr
    from zarr.codecs import Crc32cCodec

    known = DIMS.get(folder.name, ())
    if len(known) != len(sharding.row_shape):
        known = tuple(f"{folder.name}_{number}" for number in range(len(sharding.row_shape)))
    zarr.create_array(
        store=str(folder),
        shape=sharding.shape,
        chunks=(sharding.chunk, *sharding.row_shape),
        shards=(sharding.shard, *sharding.row_shape),
        dtype=sharding.dtype,
        compressors=[Crc32cCodec()],
        filters=None,
        fill_value=0,
        chunk_key_encoding={"name": "default", "separator": "."},
        dimension_names=(axis, *known),
    )


def write_array(folder: Path, values: NDArray[Any]) -> None:
    """A small array in one uncompressed, checksummed chunk."""
    import zarr
    from zarr.codecs import Crc32cCodec

    zarr.create_array(
        store=str(folder),
        data=np.asarray(values),
        chunks=tuple(max(length, 1) for length in values.shape),
        compressors=[Crc32cCodec()],
        config={"write_empty_chunks": True},
    )


def read_array(folder: Path) -> NDArray[Any]:
    """A small array that `write_array` wrote; Refusal where its bytes are gone or damaged."""
    import zarr

    array = zarr.open_array(folder, mode="r")
    chunk = folder / array.metadata.encode_chunk_key((0,) * array.ndim)
    if not chunk.exists():  # zarr would give zeros
        raise missing(chunk)
    try:
        return np.asarray(array[...])
    except ValueError:
        raise damaged(chunk) from None


def write_ids(folder: Path, ids: Sequence[str]) -> None:
    """The ids of the images as a Zarr string array, any Unicode text.

    Raises
    ------
    Refusal
        An id is not valid Unicode.
    """
    import zarr
    from zarr.codecs import Crc32cCodec

    array = zarr.create_array(
        store=str(folder),
        shape=(len(ids),),
        chunks=(min(ID_ROWS, len(ids)),),
        dtype="string",
        compressors=[Crc32cCodec()],
        chunk_key_encoding={"name": "default", "separator": "."},
        config={"write_empty_chunks": True},
        dimension_names=("image",),
    )
    try:
        array[:] = np.array(ids, dtype=np.dtypes.StringDType())
    except UnicodeEncodeError as error:
        raise Refusal(f"the image id {error.object!r} is not Unicode; rename the file") from None


def read_ids(folder: Path, count: int) -> list[str]:
    """The first `count` ids; Refusal where their bytes are gone or damaged."""
    import zarr

    array = zarr.open_array(folder, mode="r")
    for number in range(-(-count // array.chunks[0])):
        if not (folder / f"c.{number}").exists():
            raise missing(folder / f"c.{number}")
    try:
        return [str(name) for name in np.asarray(array[:count])]
    except ValueError:
        raise damaged(folder) from None
