"""How do several layers share one figure? Small multiples in rows of three."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from routelab.figures import theme
from routelab.figures.caption import plain

COLUMNS = 3
ABOVE = 26
"""Pixels for the panels' titles."""
BELOW = 46
"""Pixels for the tick labels and axis title under a row of panels."""


def panels(
    names: Sequence[str], *, height: int, gap: float, shared: bool = False
) -> tuple[go.Figure, list[dict[str, Any]]]:
    """A figure with one titled panel a name, and the row and column of each.

    Parameters
    ----------
    height
        Pixels of a panel's plot.
    gap
        Horizontal gap between panels, as a share of the figure's width.
    shared
        All panels of a row have one value axis.
    """
    columns = min(COLUMNS, max(len(names), 1))
    rows = -(-len(names) // columns) or 1
    step = height + ABOVE + BELOW
    inner = rows * step - ABOVE - BELOW
    figure = make_subplots(
        rows=rows,
        cols=columns,
        subplot_titles=[plain(name) for name in names],
        shared_yaxes=shared,
        vertical_spacing=(ABOVE + BELOW) / inner if rows > 1 else 0,
        horizontal_spacing=gap,
    )
    figure.update_annotations(font={"size": theme.FINE, "color": theme.INK})
    figure.update_layout(
        height=inner + BELOW + 10,
        margin={"t": ABOVE, "b": BELOW + 10},
        legend={"x": 1.03, "y": 1, "xanchor": "left"},
    )
    places = [{"row": i // columns + 1, "col": i % columns + 1} for i in range(len(names))]
    return figure, places


def name_axes(figure: go.Figure, places: Sequence[dict[str, Any]], x: str, y: str) -> None:
    """Title the horizontal axis of each column once, below it, and the vertical of the first."""
    lowest = {place["col"]: place["row"] for place in places}
    for column, row in lowest.items():
        figure.update_xaxes(title={"text": plain(x)}, row=row, col=column)
    figure.update_yaxes(title={"text": plain(y)}, col=1)
