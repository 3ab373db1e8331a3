"""Does a store hold the detail that an analysis needs?"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from routelab.records import Level, Refusal, StoreCard


class Stored(Protocol):
    """What is asked of a store: its card, where it lies, and its images with full routing."""

    @property
    def card(self) -> StoreCard:
        """Its root attributes."""

    @property
    def path(self) -> Path:
        """Where it lies."""

    @property
    def full(self) -> int:
        """Images with full routing."""


LEVELS: tuple[Level, ...] = ("totals", "profiles", "full")
"""From little to much; each holds all that the one before it holds."""


def require_level(store: Stored, level: Level, analysis: str) -> None:
    """Refuse a store with less detail than `analysis` needs.

    Raises
    ------
    Refusal
        One sentence with the level needed, the level found, and how to capture more.
    """
    have = store.card.capture.level
    enough = LEVELS.index(have) >= LEVELS.index(level)
    if enough and (level != "full" or store.full > 0):
        return
    found = f"{have!r} without images in full" if enough else repr(have)
    more = "--full N" if level == "full" else "the default level"
    raise Refusal(
        f"{analysis} needs level {level!r}, {store.path} has {found}; capture it again with {more}"
    )
