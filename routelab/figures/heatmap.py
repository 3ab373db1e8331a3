"""Which class goes to which expert, and which expert of which layer is busy?

The order of the classes is an argument: it must come from other images than those drawn, since
sorting and drawing the same images shows a diagonal even in noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from routelab.figures import theme
from routelab.figures.axes import (
    Group,
    category_axis,
    distinct,
    finite,
    gap_note,
    group_marks,
    reach,
)
from routelab.figures.caption import Caption, entitle

OCTAVES = 4.0
"""Beyond 16 times or a 16th of chance a colour says no more."""


def share_heatmap(
    share: ArrayLike,
    *,
    classes: Sequence[str],
    order: Sequence[int] | None = None,
    ceiling: float | None = None,
    title: str,
    caption: Caption,
    groups: Sequence[Group] = (),
) -> go.Figure:
    """Class profile of each class, rows in `order`.

    Parameters
    ----------
    share
        Share of a class's mass that each expert receives, shape (C, E); an empty class is NaN.
    classes
        Names of the C classes.
    order
        Classes from top to bottom, found on images that are not in `share`; None keeps their own.
    ceiling
        Share at the end of the colour scale; give layers that are compared the same one, or noise
        in a flat layer looks like routing. None is the largest share drawn.
    groups
        Expert groups, marked on the expert axis.
    """
    top = reach(share) if ceiling is None else ceiling
    colours = {"colorscale": list(theme.SEQUENTIAL), "zmin": 0, "zmax": top}
    figure = _class_expert(share, classes, order, groups, "share", colours)
    return entitle(figure, title, caption.noting(_sorted(order), gap_note(share)))


def lift_heatmap(
    log_lift: ArrayLike,
    *,
    classes: Sequence[str],
    order: Sequence[int] | None = None,
    title: str,
    caption: Caption,
    groups: Sequence[Group] = (),
) -> go.Figure:
    """log2 lift of each class in each expert, shape (C, E); the rest as `share_heatmap`."""
    edge = min(reach(log_lift), OCTAVES)
    ends = f"colours end at ±{OCTAVES:g}" if reach(log_lift) > OCTAVES else ""
    colours = {"colorscale": list(theme.DIVERGING), "zmin": -edge, "zmax": edge}
    figure = _class_expert(log_lift, classes, order, groups, "log2 lift", colours)
    return entitle(
        figure,
        title,
        caption.noting(_sorted(order), "0 (white): as by chance", ends, gap_note(log_lift)),
    )


def score_heatmap(
    z: ArrayLike,
    *,
    classes: Sequence[str],
    order: Sequence[int] | None = None,
    title: str,
    caption: Caption,
    groups: Sequence[Group] = (),
) -> go.Figure:
    """Standard scores against the permutation null, shape (C, E); shapes as `share_heatmap`."""
    edge = max(reach(z), 3.0)
    colours = {"colorscale": list(theme.DIVERGING), "zmin": -edge, "zmax": edge}
    figure = _class_expert(z, classes, order, groups, "z", colours)
    return entitle(
        figure, title, caption.noting(_sorted(order), "0 (white): the null's mean", gap_note(z))
    )


def expert_atlas(
    relative_load: ArrayLike,
    *,
    layers: Sequence[str],
    title: str,
    caption: Caption,
    groups: Sequence[Group] = (),
) -> go.Figure:
    """Load of every expert of every layer as a multiple of the fair share.

    Parameters
    ----------
    relative_load
        Share times E, shape (L, E): 1 is fair, 0 is dead; NaN where a layer has fewer experts.
    layers
        Names of the L layers, top to bottom.
    """
    ratio = finite(relative_load)
    # a colour of log2 gives twice and half the fair share equal weight; three octaves are enough
    octaves = np.log2(np.clip(ratio, 2.0**-3, 2.0**3))
    ticks = [-3, -2, -1, 0, 1, 2, 3]
    labels = ["≤⅛", "¼", "½", "1", "2", "4", "≥8"]
    figure = go.Figure(
        go.Heatmap(
            {
                "z": octaves.astype(np.float32),
                "x": [str(expert) for expert in range(ratio.shape[1])],
                "y": distinct(layers),
                "customdata": ratio.astype(np.float32),
                "colorscale": list(theme.DIVERGING),
                "zmin": -3,
                "zmax": 3,
                "xgap": 1 if ratio.shape[1] <= 64 else 0,
                "ygap": 1,
                "colorbar": theme.colour_bar("× fair share", tickvals=ticks, ticktext=labels),
                "hovertemplate": (
                    "layer %{y}<br>expert %{x}<br>%{customdata:.3g} × fair share<extra></extra>"
                ),
            }
        )
    )
    _expert_columns(figure, ratio.shape[1], groups)
    figure.update_layout(
        yaxis={**category_axis(layers, title="layer"), "autorange": "reversed"},
        height=80 + 34 * max(len(layers), 5),
    )
    return entitle(figure, title, caption.noting(gap_note(ratio)))


def _class_expert(
    values: ArrayLike,
    classes: Sequence[str],
    order: Sequence[int] | None,
    groups: Sequence[Group],
    unit: str,
    colours: dict[str, Any],
) -> go.Figure:
    places = range(len(classes)) if order is None else order
    rows = finite(values)[np.asarray(places, dtype=np.int64)]
    names = [classes[place] for place in places]
    figure = go.Figure(
        go.Heatmap(
            {
                "z": rows.astype(np.float32),
                "x": [str(expert) for expert in range(rows.shape[1])],
                "y": distinct(names),
                "xgap": 1 if rows.shape[1] <= 64 else 0,
                "ygap": 1 if rows.shape[0] <= 64 else 0,
                "colorbar": theme.colour_bar(unit),
                "hovertemplate": (
                    f"class %{{y}}<br>expert %{{x}}<br>{unit} %{{z:.3f}}<extra></extra>"
                ),
                **colours,
            }
        )
    )
    _expert_columns(figure, rows.shape[1], groups)
    figure.update_layout(
        yaxis={**category_axis(names, title="class", most=50), "autorange": "reversed"},
        height=int(np.clip(16 * len(names), 200, 760)) + 60,
    )
    return figure


def _sorted(order: Sequence[int] | None) -> str:
    return "" if order is None else "rows in an order found on the other half of the images"


def _expert_columns(figure: go.Figure, experts: int, groups: Sequence[Group]) -> None:
    figure.update_layout(
        **group_marks(groups),
        xaxis={**category_axis(range(experts), title="expert"), "showgrid": False},
        yaxis={"showgrid": False},
        plot_bgcolor=theme.UNDEFINED,
        margin={"t": 26 if len(groups) > 1 else 10},
    )
