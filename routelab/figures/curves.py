"""How does a number change over the layers, beside what chance gives and how sure it is?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from routelab.figures import theme
from routelab.figures.axes import category_axis, distinct, finite, gap_note
from routelab.figures.caption import Caption, entitle, plain


@dataclass(frozen=True, kw_only=True, eq=False)
class Series:
    """One line: its values by layer, and what belongs beside them; every array has shape (L,).

    Attributes
    ----------
    value
        The number; NaN leaves a gap.
    low, high
        Its confidence interval.
    chance
        What chance gives: the null's mean or a constant.
    chance_low, chance_high
        The null's range.
    """

    value: ArrayLike
    low: ArrayLike | None = None
    high: ArrayLike | None = None
    chance: ArrayLike | None = None
    chance_low: ArrayLike | None = None
    chance_high: ArrayLike | None = None


def layer_curve(
    series: Mapping[str, Series],
    *,
    layers: Sequence[str],
    unit: str,
    title: str,
    caption: Caption,
    from_zero: bool = False,
) -> go.Figure:
    """Lines over the layers with interval bars, and a dashed chance level with its band.

    Parameters
    ----------
    series
        Lines by name; the first has the first colour.
    layers
        Names of the L layers, in depth order.
    unit
        Title of the value axis.
    from_zero
        Let the value axis include 0.
    """
    figure = go.Figure()
    places = distinct(layers)
    shared = _same_chance(series)
    for index, (name, line) in enumerate(series.items()):
        ink = theme.colour(index)
        if not shared or index == 0:
            _draw_chance(figure, places, line, theme.CHANCE if shared else ink, name, shared)
        figure.add_trace(_line(places, line, plain(name), ink))
    figure.update_layout(
        xaxis=category_axis(layers, title="layer (depth)"),
        yaxis={"title": {"text": plain(unit)}, "rangemode": "tozero" if from_zero else "normal"},
        showlegend=len(figure.data) > 1,
        legend={"orientation": "v", "x": 1.01, "y": 1, "xanchor": "left"},
        height=320,
    )
    values = np.concatenate([finite(line.value).ravel() for line in series.values()])
    return entitle(figure, title, caption.noting(gap_note(values, "gap")))


def _line(places: list[str], line: Series, name: str, ink: str) -> go.Scatter:
    value = finite(line.value)
    bars = None
    if line.low is not None and line.high is not None:
        bars = _bars(value, finite(line.low), finite(line.high), ink)
    return go.Scatter(
        x=places,
        y=value,
        name=name,
        mode="lines+markers",
        line={"color": ink, "width": 2},
        marker={"size": 8},
        error_y=bars,
        hovertemplate="layer %{x}<br>%{y:.4g}",
    )


def _bars(
    value: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64], ink: str
) -> dict[str, Any]:
    """Error bars as lengths; a bound on the wrong side of its value becomes no bar, not a flip."""
    return {
        "type": "data",
        "symmetric": False,
        "array": np.nan_to_num(np.maximum(high - value, 0)),
        "arrayminus": np.nan_to_num(np.maximum(value - low, 0)),
        "color": ink,
        "thickness": 1.5,
        "width": 5,
    }


def _draw_chance(
    figure: go.Figure, places: list[str], line: Series, ink: str, name: str, shared: bool
) -> None:
    if line.chance is None:
        return
    label = "chance" if shared else f"chance, {name}"
    if line.chance_low is not None and line.chance_high is not None:
        low, high = finite(line.chance_low), finite(line.chance_high)
        for run in _runs(np.isfinite(low) & np.isfinite(high)):
            figure.add_trace(_band(places[run], low[run], high[run], ink))
    figure.add_trace(
        go.Scatter(
            x=places,
            y=finite(line.chance),
            name=plain(label),
            mode="lines+markers",
            line={"color": ink, "width": 1.5, "dash": "dash"},
            marker={"symbol": "line-ew-open", "size": 12, "line": {"width": 1.5}},
            hovertemplate="layer %{x}<br>chance %{y:.4g}",
        )
    )


def _band(
    places: list[str], low: NDArray[np.float64], high: NDArray[np.float64], ink: str
) -> go.Scatter:
    """One closed outline: up along `low`, back along `high`."""
    return go.Scatter(
        x=places + places[::-1],
        y=np.concatenate([low, high[::-1]]),
        fill="toself",
        fillcolor=theme.translucent(ink, 0.2),
        line={"width": 0 if len(places) > 1 else 6, "color": theme.translucent(ink, 0.3)},
        mode="lines",
        showlegend=False,
        hoverinfo="skip",
    )


def _runs(present: NDArray[np.bool_]) -> Iterator[slice]:
    """Slices of neighbours that are all present, since a filled outline cannot cross a gap."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], present, [False]]).astype(int)))
    for start, stop in zip(edges[::2], edges[1::2], strict=True):
        yield slice(int(start), int(stop))


def _same_chance(series: Mapping[str, Series]) -> bool:
    """True if all lines have one chance level, which is then drawn once, in grey."""
    levels = [finite(line.chance) for line in series.values() if line.chance is not None]
    if len(levels) < len(series):
        return len(series) == 1
    return all(np.array_equal(level, levels[0], equal_nan=True) for level in levels)
