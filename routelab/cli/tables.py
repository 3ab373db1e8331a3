"""How do cards, layers and checks read on a terminal?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from routelab.records import Check, RouterSpec
    from routelab.recycling import LayerPreservation, LineageRow


def facts_table(facts: Mapping[str, object], title: str = "") -> Table:
    """Names and values, one a line; empty values are left out."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=title or None, title_justify="left", box=None, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        if value not in ("", None, (), {}):
            table.add_row(name, escape(str(value)))
    return table


def layers_table(layers: Iterable[RouterSpec]) -> Table:
    """One row a MoE layer."""
    table = _table("layer", "path", "router", "tokens", "experts", "slots", "width", "k", "shared")
    for spec in layers:
        groups = " + ".join(f"{g.stop - g.start} {g.name} ({g.hidden})" for g in spec.groups)
        tokens = f"{spec.tokens}" + (f" ({spec.prefix} not patches)" if spec.prefix else "")
        table.add_row(
            spec.key,
            spec.layer,
            spec.kind,
            tokens,
            groups,
            str(spec.slots) if spec.soft else "",
            str(spec.width),
            "" if spec.k is None else str(spec.k),
            "yes" if spec.shared else "",
        )
    return table


def checks_table(checks: Iterable[Check]) -> Table:
    """One row a check: what was measured and what was allowed."""
    from rich.markup import escape

    table = _table("", "check", "measured", "allowed", "")
    for check in checks:
        table.add_row(
            "[green]pass[/]" if check.passed else "[red]FAIL[/]",
            check.name,
            "" if check.value is None else f"{check.value:.3g}",
            "" if check.limit is None else f"{check.limit:.3g}",
            escape(check.detail),
        )
    return table


def lineage_table(rows: Iterable[LineageRow]) -> Table:
    """One row a group of recycled experts: what of the source they have, and what they share."""
    table = _table(
        "layer",
        "group",
        "experts",
        "neurons",
        "distinct",
        "coverage",
        "overlap",
        "chance",
        "aligned",
    )
    for row in rows:
        table.add_row(
            row.layer,
            row.group,
            str(row.experts),
            f"{row.hidden} of {row.available}",
            str(row.distinct),
            f"{row.coverage:.0%}",
            _number(row.overlap),
            _number(row.chance),
            _number(row.alignment),
        )
    return table


def preservation_table(rows: Iterable[LayerPreservation]) -> Table:
    """One row a block: the recycled model's features against the dense model's."""
    table = _table("layer", "", "CKA with dense", "error of output", "error of the layer alone")
    for row in rows:
        table.add_row(
            row.layer,
            "MoE" if row.moe else "dense",
            _number(row.cka),
            _number(row.error),
            _number(row.alone),
        )
    return table


def _number(value: float) -> str:
    """Three places; nothing for NaN."""
    return "" if math.isnan(value) else f"{value:.3f}"


def _table(*columns: str) -> Table:
    """A table without lines; its last column folds."""
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def readable(number: float) -> str:
    """A count with K, M, G; for example 5.72 M."""
    for unit in ("", " K", " M", " G"):
        if abs(number) < 1000:
            return f"{number:.3g}{unit}"
        number /= 1000
    return f"{number:.3g} T"
