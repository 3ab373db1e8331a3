"""What is a report made of? Sections of blocks: words, facts, tables, notices and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from routelab.records import Result, StoreCard
from routelab.store import CaptureStore

if TYPE_CHECKING:
    import plotly.graph_objects as go


@dataclass(frozen=True)
class Words:
    """A paragraph; data in it is escaped when it is written."""

    text: str


@dataclass(frozen=True)
class Facts:
    """Names and values, for example of a card."""

    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Table:
    """Rows of cells under column names; a row whose first cell is in `marked` is set off."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    marked: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Notices:
    """Things worth a look, each one sentence with the key of the section that it is about."""

    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Details:
    """Names and values that are folded away until asked for."""

    title: str
    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Picture:
    """A figure."""

    figure: go.Figure


Block = Words | Facts | Table | Notices | Details | Picture


@dataclass(frozen=True)
class Section:
    """One question of the report and what answers it."""

    title: str
    blocks: Sequence[Block]
    question: str = ""


@dataclass(frozen=True)
class Material:
    """Everything that sections are made from.

    Attributes
    ----------
    store
        The open store; sections read slices of full routing from it.
    results
        Its saved Results by name.
    """

    store: CaptureStore
    results: Mapping[str, Result] = field(default_factory=dict)

    @property
    def card(self) -> StoreCard:
        """The store's card."""
        return self.store.card

    @property
    def classes(self) -> list[str]:
        """Class names as the data card has them."""
        return [str(name) for name in self.store.classes]


def parameters(result: Result) -> Details:
    """What made a Result, and what each of its numbers is, folded away."""
    rows = [(name, str(value)) for name, value in sorted(result.parameters.items())]
    for name, quantity in result.quantities.items():
        said = [quantity.meaning, f"({quantity.unit})" if quantity.unit else "", quantity.reason]
        if any(said):
            rows.append((name, " ".join(part for part in said if part)))
    return Details("how this was computed, and what the numbers are", rows)
