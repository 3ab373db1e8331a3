"""How do sums over images survive a kill, and where do they end up?

The sums are added in float64 in the order of the batches, so that a resumed capture adds the same
numbers in the same order as an unbroken one. Until the store is complete they lie in
`state-<committed>.npz`, written before the commit that names it; then they become `totals/`.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from routelab.records import Refusal, StoreCard
from routelab.store.files import sync_tree, write_whole
from routelab.store.layout import METADATA, read_array, totals_folder, write_array, write_group
from routelab.store.shards import damaged

Shapes = Mapping[str, Mapping[str, tuple[int, ...]]]
Arrays = Mapping[str, Mapping[str, NDArray[Any]]]

SUM = "sum"
ROWS = "rows"


class RunningSums:
    """Float64 sums over images, and rows kept one a batch, of every layer."""

    def __init__(self, sums: Shapes, batch_rows: Shapes) -> None:
        self._sums = {
            (layer, name): np.zeros(shape)
            for layer, shapes in sums.items()
            for name, shape in shapes.items()
        }
        self._rows: dict[tuple[str, str], list[NDArray[np.float64]]] = {
            (layer, name): [] for layer, shapes in batch_rows.items() for name in shapes
        }
        self._row_shapes = {
            (layer, name): shape
            for layer, shapes in batch_rows.items()
            for name, shape in shapes.items()
        }

    def add(self, sums: Arrays, batch_rows: Arrays) -> None:
        """Add the increments of one batch; every sum and row of the plan must be there."""
        for layer, name in self._sums:
            increment = np.asarray(sums[layer][name], np.float64)
            self._sums[layer, name] += increment.reshape(self._sums[layer, name].shape)
        for layer, name in self._rows:
            row = np.array(batch_rows[layer][name], np.float64)
            self._rows[layer, name].append(row.reshape(self._row_shapes[layer, name]))

    def drop(self, layer: str) -> None:
        """Forget a layer."""
        for table in (self._sums, self._rows, self._row_shapes):
            for address in [address for address in table if address[0] == layer]:
                del table[address]

    def arrays(self) -> dict[tuple[str, str], NDArray[np.float64]]:
        """Every sum, and the rows of every batch so far stacked on a first axis."""
        stacked = {
            address: np.array(rows).reshape(len(rows), *self._row_shapes[address])
            for address, rows in self._rows.items()
        }
        return {**{address: total.copy() for address, total in self._sums.items()}, **stacked}

    def save(self, path: Path, committed: int) -> None:
        """Write the state that belongs to a commit."""
        named = {
            f"{ROWS if address in self._rows else SUM}/{address[0]}/{address[1]}": array
            for address, array in self.arrays().items()
        }
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **named)
        write_whole(state_file(path, committed), [buffer.getvalue()])

    @classmethod
    def load(cls, path: Path, committed: int) -> RunningSums:
        """The state that belongs to a commit.

        Raises
        ------
        Refusal
            Its file is missing or damaged.
        """
        self = cls({}, {})
        for key, array in read_state(path, committed).items():
            kind, layer, name = key.split("/")
            if kind == SUM:
                self._sums[layer, name] = array
            else:
                self._rows[layer, name] = list(array)
                self._row_shapes[layer, name] = array.shape[1:]
        return self

    def publish(self, path: Path) -> None:
        """Write the sums as the `totals/` of a complete store."""
        layers = {layer for layer, _ in (*self._sums, *self._rows)}
        write_group(path / "totals", {})
        for layer in sorted(layers):
            write_group(totals_folder(path, layer), {})
        for (layer, name), array in self.arrays().items():
            write_array(totals_folder(path, layer) / name, array)
        sync_tree(path / "totals")


def state_file(path: Path, committed: int) -> Path:
    """Where the sums of the first `committed` images lie."""
    return path / f"state-{committed}.npz"


def read_state(path: Path, committed: int) -> dict[str, NDArray[np.float64]]:
    """Sums by "sum/LAYER/NAME" and "rows/LAYER/NAME"."""
    file = state_file(path, committed)
    try:
        with np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise Refusal(
            f"{file} is missing, so {path} can be neither read nor resumed; "
            "capture it again with --overwrite"
        ) from None
    except (ValueError, OSError, zipfile.BadZipFile):
        raise damaged(file) from None


def read_sums(path: Path, card: StoreCard) -> dict[str, dict[str, NDArray[np.float64]]]:
    """Sums over the committed images, by layer and name, wherever they lie."""
    sums: dict[str, dict[str, NDArray[np.float64]]] = {spec.key: {} for spec in card.layers}
    if not card.complete:
        for key, array in read_state(path, card.committed).items():
            _, layer, name = key.split("/")
            sums.get(layer, {})[name] = array
        return sums
    for layer, named in sums.items():
        for metadata in sorted(totals_folder(path, layer).glob(f"*/{METADATA}")):
            named[metadata.parent.name] = read_array(metadata.parent)
    return sums


def remove_states(path: Path, *, keep: int | None) -> None:
    """Remove the states of other commits than `keep`."""
    for file in path.glob("state-*.npz"):
        if keep is None or file != state_file(path, keep):
            file.unlink()
