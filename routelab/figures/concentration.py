"""How few tokens make up a slot, and how few slots make up a token?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from routelab.figures import theme
from routelab.figures.axes import finite
from routelab.figures.caption import Caption, entitle
from routelab.figures.panels import name_axes, panels

PANEL = 170


@dataclass(frozen=True, eq=False)
class MassCurve:
    """Mass held by the largest weights, one curve.

    Attributes
    ----------
    mean
        Mean cumulative share at each fraction, shape (F,).
    bands
        Central intervals by percent, for example `{90: (low, high)}`, each of shape (F,).
    """

    mean: ArrayLike
    bands: Mapping[float, tuple[ArrayLike, ArrayLike]] = field(default_factory=dict)


def mass_curves(
    curves: Mapping[str, MassCurve], *, fraction: ArrayLike, of: str, title: str, caption: Caption
) -> go.Figure:
    """Cumulative mass curves, one panel each, with their bands and the uniform diagonal.

    Parameters
    ----------
    curves
        Curves by the name of their panel.
    fraction
        Share of the items, largest weight first, shape (F,), from 0 to 1.
    of
        What the items are: "tokens" or "slots".
    """
    figure, places = panels(list(curves), height=PANEL, gap=0.05, shared=True)
    steps = finite(fraction)
    for row, (curve, where) in enumerate(zip(curves.values(), places, strict=True)):
        for trace in _traces(steps, curve):
            trace.update(legendgroup=trace.name, showlegend=row == 0)
            figure.add_trace(trace, **where)
    figure.update_xaxes(
        range=[0, 1], tickvals=[0, 0.25, 0.5, 0.75, 1], ticktext=["0", "", "50%", "", "100%"]
    )
    figure.update_yaxes(range=[0, 1.02], tickformat=".0%")
    name_axes(figure, places, f"{of}, largest weight first", "share of the mass")
    return entitle(figure, title, caption.noting("dashed diagonal: uniform weights"))


def _traces(steps: NDArray[np.float64], curve: MassCurve) -> list[go.Scatter]:
    """Wide bands first, so that narrow ones lie on them; then the diagonal and the mean."""
    traces = []
    for percent in sorted(curve.bands, reverse=True):
        low, high = (finite(edge) for edge in curve.bands[percent])
        if np.isfinite(low).all() and np.isfinite(high).all():
            traces.append(_band(steps, low, high, percent))
    uniform = go.Scatter(
        x=[0, 1],
        y=[0, 1],
        mode="lines",
        name="uniform",
        line={"color": theme.CHANCE, "dash": "dash", "width": 1.5},
        hoverinfo="skip",
    )
    mean = go.Scatter(
        x=steps,
        y=finite(curve.mean),
        mode="lines",
        name="mean",
        line={"color": theme.colour(0), "width": 2},
        hovertemplate="%{x:.1%} hold %{y:.1%}<extra></extra>",
    )
    return [*traces, uniform, mean]


def _band(
    steps: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    percent: float,
) -> go.Scatter:
    return go.Scatter(
        x=np.concatenate([steps, steps[::-1]]),
        y=np.concatenate([high, low[::-1]]),
        fill="toself",
        mode="lines",
        line={"width": 0},
        fillcolor=theme.translucent(theme.colour(0), 0.12),
        name=f"central {percent:g} %",
        hoverinfo="skip",
    )
