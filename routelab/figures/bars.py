"""How evenly do the experts of each layer share the work?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from routelab.figures import theme
from routelab.figures.axes import Group, finite
from routelab.figures.caption import Caption, entitle, plain
from routelab.figures.panels import name_axes, panels

PANEL = 130


def load_bars(
    share: ArrayLike,
    *,
    layers: Sequence[str],
    title: str,
    caption: Caption,
    groups: Sequence[Sequence[Group]] = (),
    dead: ArrayLike | None = None,
    cold: ArrayLike | None = None,
) -> go.Figure:
    """Share of the load of each expert, one panel a layer, with the uniform share as a line.

    Parameters
    ----------
    share
        Shape (L, E); NaN where a layer has fewer experts.
    layers
        Names of the L layers.
    groups
        Expert groups of each layer; each group has its own colour.
    dead, cold
        1 for an expert that is, shape (L, E); marked with × and ○.
    """
    values = finite(share)
    figure, places = panels([f"layer {layer}" for layer in layers], height=PANEL, gap=0.07)
    for row, where in enumerate(places):
        parts = groups[row] if row < len(groups) else ()
        _draw_layer(figure, values[row], parts, where)
        for marks, name, symbol in ((dead, "dead", "x"), (cold, "cold", "circle-open")):
            if marks is not None:
                _mark(figure, np.asarray(marks)[row], name, symbol, where)
    name_axes(figure, places, "expert", "share of load")
    figure.update_xaxes(showgrid=False, tickangle=0)
    figure.update_yaxes(rangemode="tozero")
    several = len({trace["name"] for trace in figure.data}) > 1
    figure.update_layout(barmode="overlay", bargap=0.15, showlegend=several)
    return entitle(figure, title, caption.noting("dashed line: uniform share"))


def _draw_layer(
    figure: go.Figure, share: NDArray[np.float64], groups: Sequence[Group], where: dict[str, Any]
) -> None:
    experts = np.flatnonzero(np.isfinite(share))
    for index, group in enumerate(groups or [Group("experts", 0, share.size)]):
        inside = experts[(experts >= group.start) & (experts < group.stop)]
        figure.add_trace(
            go.Bar(
                x=inside,
                y=share[inside],
                marker={"color": theme.colour(index), "line": {"width": 0}},
                hovertemplate="expert %{x}<br>share %{y:.4f}",
                **_legend(figure, group.name),
            ),
            **where,
        )
    if experts.size:
        uniform = {"color": theme.CHANCE, "dash": "dash", "width": 1.5}
        figure.add_hline(y=1 / experts.size, line=uniform, **where)
    last = int(experts.max(initial=0))
    figure.update_xaxes(range=[-0.6, last + 0.6], dtick=_every(last + 1), **where)


def _every(experts: int) -> int:
    """Distance between tick labels that fits a narrow panel."""
    return next((step for step in (1, 2, 4, 10, 25, 50, 100) if experts <= 10 * step), 250)


def _mark(
    figure: go.Figure, flags: NDArray[np.float64], name: str, symbol: str, where: dict[str, Any]
) -> None:
    experts = np.flatnonzero(np.nan_to_num(flags) > 0)
    if not experts.size:
        return
    figure.add_trace(
        go.Scatter(
            x=experts,
            y=np.zeros(experts.size),
            mode="markers",
            cliponaxis=False,
            marker={"symbol": symbol, "size": 8, "color": theme.ALARM, "line": {"width": 1}},
            hovertemplate=f"expert %{{x}} is {name}<extra></extra>",
            **_legend(figure, name),
        ),
        **where,
    )


def _legend(figure: go.Figure, name: str) -> dict[str, Any]:
    """One legend entry a name, for the panels together."""
    label = plain(name)
    seen = any(trace["name"] == label for trace in figure.data)
    return {"name": label, "legendgroup": label, "showlegend": not seen}
