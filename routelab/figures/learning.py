"""How fast did each arm of a study learn, by what it had spent?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go
from numpy.typing import ArrayLike

from routelab.figures import theme
from routelab.figures.axes import finite
from routelab.figures.caption import Caption, entitle, plain
from routelab.figures.panels import panels


@dataclass(frozen=True, kw_only=True, eq=False)
class Learning:
    """One arm over K evaluations; every array has shape (K,).

    Attributes
    ----------
    spent
        What had been spent at each, by the name of the axis, for example updates or FLOPs.
    value
        Mean over seeds.
    low, high
        Its interval.
    """

    spent: Mapping[str, ArrayLike]
    value: ArrayLike
    low: ArrayLike
    high: ArrayLike


def learning_curves(
    arms: Mapping[str, Learning],
    *,
    axes: Sequence[str],
    unit: str,
    chance: float,
    title: str,
    caption: Caption,
) -> go.Figure:
    """One panel a way of counting what was spent, one line an arm, chance dashed.

    Parameters
    ----------
    arms
        By name; colours follow their order.
    axes
        Which of `Learning.spent` get a panel, in this order.
    unit
        Title of the value axis.
    chance
        What guessing gives.
    """
    figure, places = panels(axes, height=300, gap=0.06, shared=True)
    for axis, place in zip(axes, places, strict=True):
        for index, (name, arm) in enumerate(arms.items()):
            line = _line(arm, axis, plain(name), theme.colour(index), legend=axis == axes[0])
            figure.add_trace(line, **place)
        figure.add_hline(
            y=chance, line={"color": theme.CHANCE, "width": 1.5, "dash": "dash"}, **place
        )
        figure.update_xaxes(rangemode="tozero", **place)
    figure.update_yaxes(rangemode="tozero")
    figure.update_yaxes(title={"text": plain(unit)}, col=1)
    return entitle(figure, title, caption)


def _line(arm: Learning, axis: str, name: str, ink: str, *, legend: bool) -> go.Scatter:
    value, low, high = finite(arm.value), finite(arm.low), finite(arm.high)
    return go.Scatter(
        x=finite(arm.spent[axis]),
        y=value,
        name=name,
        legendgroup=name,
        showlegend=legend,
        mode="lines+markers",
        line={"color": ink, "width": 2},
        marker={"size": 6},
        error_y={
            "type": "data",
            "symmetric": False,
            "array": high - value,
            "arrayminus": value - low,
            "color": theme.translucent(ink, 0.6),
            "thickness": 1,
            "width": 3,
        },
        hovertemplate=f"{plain(axis)} %{{x:.4g}}<br>%{{y:.4f}}",
    )
