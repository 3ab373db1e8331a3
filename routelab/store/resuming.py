"""Can a store be continued, and by this capture?"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from routelab.records import Refusal, StoreCard
from routelab.store.columns import GrowingArray
from routelab.store.files import remove_unfinished
from routelab.store.layout import METADATA, layer_folder, read_card
from routelab.store.lock import WriterLock
from routelab.store.shards import read_sharding
from routelab.store.sums import RunningSums, remove_states

Columns = dict[tuple[str, str], GrowingArray]
"""By layer key ("" for `images/`) and array name."""

STATIC = ("label", "id")
"""Arrays of `images/` that are whole from the start."""

VOLATILE = ("committed", "complete", "certificate", "refused")
"""Fields of a card that a capture fills in as it goes."""


@dataclass(frozen=True)
class Stored:
    """What a writer goes on from."""

    card: StoreCard
    images: int
    columns: Columns
    sums: RunningSums


def reopen(path: Path, card: StoreCard) -> Stored:
    """Read back where a capture by `card` stopped.

    Raises
    ------
    Refusal
        No store is there, it is complete, it was made by another configuration, or it is damaged.
    """
    if is_complete(path, card):
        raise Refusal(f"{path} is complete; there is nothing to resume")
    stored = read_card(path)
    shutil.rmtree(path / "totals", ignore_errors=True)
    remove_states(path, keep=stored.committed)
    images = read_sharding(path / "images" / "label").rows
    columns = _columns(path, stored)
    return Stored(stored, images, columns, RunningSums.load(path, stored.committed))


def is_complete(path: Path, card: StoreCard) -> bool:
    """True if the store that `card` began has nothing left to do.

    What a killed process left half written, or had no time to remove, is removed.

    Raises
    ------
    Refusal
        No store is there, it was made by another configuration, or another capture is writing it.
    """
    if not path.exists():
        raise Refusal(f"there is nothing to resume at {path}; leave --resume out")
    stored = read_card(path)
    refuse_difference(path, stored, card)
    with WriterLock(path):
        remove_unfinished(path)
        if stored.complete:
            tidy(path, stored)
    return stored.complete


def tidy(path: Path, card: StoreCard) -> None:
    """Remove what a complete store does not need."""
    remove_states(path, keep=None)
    for layer in card.refused:
        shutil.rmtree(layer_folder(path, layer), ignore_errors=True)


def refuse_difference(path: Path, stored: StoreCard, given: StoreCard) -> None:
    """Refuse to continue with another configuration, naming the first field that differs."""
    gone = set(stored.refused)
    layers = tuple(s for s in given.layers if s.key not in gone and s.layer not in gone)
    difference = first_difference(
        _settings(stored), _settings(given.model_copy(update={"layers": layers}))
    )
    if difference is None:
        return
    name, before, now = difference
    raise Refusal(
        f"{path} was begun with {name} = {_short(before)}, this capture has {_short(now)}; resume "
        "with the same settings, or give another --out"
    )


def first_difference(before: Any, now: Any, name: str = "") -> tuple[str, Any, Any] | None:
    """Dotted name and both values of the first field in which two settings differ, or None."""
    if isinstance(before, dict) and isinstance(now, dict):
        keys: list[Any] = list(dict.fromkeys([*before, *now]))
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        keys = list(range(len(before)))
        before, now = dict(enumerate(before)), dict(enumerate(now))
    else:
        return None if before == now else (name, before, now)
    for key in keys:
        found = first_difference(before.get(key), now.get(key), f"{name}.{key}".lstrip("."))
        if found is not None:
            return found
    return None


def _settings(card: StoreCard) -> dict[str, Any]:
    """What must be the same in both runs; the command's own text may name --resume."""
    settings = card.model_dump(mode="json", exclude={*VOLATILE, "format"})
    del settings["capture"]["command"]
    return settings


def _columns(path: Path, card: StoreCard) -> Columns:
    """Every array that batches bring rows for."""
    columns: Columns = {}
    folders = [("", path / "images")]
    folders += [(spec.key, layer_folder(path, spec.key)) for spec in card.layers]
    for layer, folder in folders:
        for metadata in sorted(folder.glob(f"*/{METADATA}")):
            name = metadata.parent.name
            if layer or name not in STATIC:
                sharding = read_sharding(metadata.parent)
                columns[layer, name] = GrowingArray(metadata.parent, sharding, card.committed)
    return columns


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
