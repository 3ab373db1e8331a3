"""How does a slot of the ring become a batch of the store?

This runs in the writer thread: it needs labels and NumPy, not the device.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from routelab.capture.pipeline import Layout, Slot
from routelab.capture.recording import FULL, IMAGES, SUMS, TABLES
from routelab.records import Refusal, RouterSpec
from routelab.store import Batch, Column, StoreWriter

Arrays = dict[str, NDArray[Any]]
NOT_A_NUMBER = "its router gave NaN or infinite values"

_FINITE = ("profile", "prefix_mass", "gate_probs_profile")
"""Tables in which a logit that is not a number cannot hide."""


def by_layer(layout: Layout, section: str, keys: set[str]) -> dict[str, dict[str, Column]]:
    """Columns of one section, by layer key and name, as the store takes them."""
    columns: dict[str, dict[str, Column]] = {key: {} for key in sorted(keys)}
    for address, place in layout.items():
        if address.section == section and address.layer in keys:
            column = Column(place.shape, str(place.dtype).removeprefix("torch."))
            columns[address.layer][address.name] = column
    return columns


def sum_shapes(
    layout: Layout, specs: tuple[RouterSpec, ...], classes: int
) -> dict[str, dict[str, tuple[int, ...]]]:
    """Shapes of the running sums of each layer, those made on the host included."""
    shapes: dict[str, dict[str, tuple[int, ...]]] = {}
    for spec in specs:
        device = {
            address.name: place.shape
            for address, place in layout.items()
            if address.section == SUMS and address.layer == spec.key
        }
        by_class = {"class_mass": (classes, spec.experts), "class_count": (classes,)}
        shapes[spec.key] = {**device, "load": (spec.experts,), **(by_class if classes else {})}
    return shapes


@dataclass
class Assembler:
    """Appends slots to a store; refuses a layer whose router gave NaN and goes on with the others.

    Parameters
    ----------
    writer
        Where the batches go.
    ids
        Image ids, to name the image that a layer failed on.
    classes
        Classes of the totals.
    refused
        Keys of layers that are left out already; the forward pass reads it.
    """

    writer: StoreWriter
    ids: Sequence[str]
    classes: int
    refused: set[str]

    def write(self, slot: Slot) -> None:
        """Append one batch."""
        sections: dict[str, dict[str, Arrays]] = defaultdict(lambda: defaultdict(dict))
        for address in slot.filled:
            if address.layer not in self.refused:
                sections[address.section][address.layer][address.name] = slot.array(address)
        for key in [key for key, table in sections[TABLES].items() if _broken(table) is not None]:
            self._refuse(key, slot.start, sections[TABLES][key])
            for section in sections.values():
                section.pop(key, None)
        tables = sections[TABLES]
        sums = {
            key: {**sections[SUMS][key], **class_sums(table, slot.labels, self.classes)}
            for key, table in tables.items()
        }
        self.writer.append(
            Batch(
                images=dict(sections[IMAGES][""]),
                tables={} if self.writer.card.capture.level == "totals" else tables,
                full=dict(sections[FULL]),
                sums=sums,
                batch_rows={key: {"batch_load": s["load"]} for key, s in sums.items()},
            )
        )

    def _refuse(self, key: str, start: int, table: Arrays) -> None:
        """Leave one layer out of the store from here on."""
        image = self.ids[start + (_broken(table) or 0)]
        reason = f"{NOT_A_NUMBER} for image {image}"
        self.refused.add(key)
        self.writer.refuse_layer(key, reason)
        if not self.writer.card.layers:
            raise Refusal(
                f"no layer is left to capture: layer {key} was the last, and {reason}; "
                "check the checkpoint, or capture in --dtype float32"
            )


def class_sums(table: Mapping[str, NDArray[Any]], labels: NDArray[Any], classes: int) -> Arrays:
    """Totals that need labels: profile by class `(C, E)`, images by class `(C,)`, hits `(E,)`."""
    sums: Arrays = {"load": table["hits"].sum(axis=0, dtype=np.float64)}
    if classes:
        known = labels >= 0
        mass = np.zeros((classes, table["profile"].shape[1]))
        np.add.at(mass, labels[known], table["profile"][known].astype(np.float64))
        sums["class_mass"] = mass
        sums["class_count"] = np.bincount(labels[known], minlength=classes).astype(np.float64)
    return sums


def _broken(table: Mapping[str, NDArray[Any]]) -> int | None:
    """Row of the first image whose routing is not finite, or None."""
    bad = [
        ~np.isfinite(table[name]).all(axis=tuple(range(1, table[name].ndim)))
        for name in _FINITE
        if name in table
    ]
    rows = np.flatnonzero(np.any(bad, axis=0))
    return int(rows[0]) if len(rows) else None
