"""Do images that a layer treats alike lie near each other?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from routelab.figures import theme
from routelab.figures.axes import finite, shorten
from routelab.figures.caption import Caption, entitle, plain

WEBGL_FROM = 5_000
"""Points above which the figure is drawn by WebGL; below, SVG prints sharper."""
LEGEND_AT_MOST = 34
SYMBOLS = ("circle", "diamond", "square", "triangle-up", "x")


def embedding_scatter(
    coordinates: ArrayLike,
    *,
    group: ArrayLike,
    names: Sequence[str],
    score: str,
    title: str,
    caption: Caption,
    hover: Sequence[str] = (),
) -> go.Figure:
    """Points of a 2-D projection coloured by class, by expert or by correctness.

    Parameters
    ----------
    coordinates
        Shape (n, 2); points with NaN are left out.
    group
        Index into `names` of each point, shape (n,); -1 is grey ("none").
    names
        What the colours mean. Colours repeat after the palette, with another symbol.
    score
        A number from the original space and what it is; a projection alone is no evidence.
    hover
        A text for each point, for example its image id.
    """
    points = finite(coordinates)
    present = np.isfinite(points).all(axis=1)
    groups = np.asarray(group, dtype=np.int64)
    words = np.asarray([plain(text) for text in hover], dtype=object)
    figure = go.Figure()
    for index in np.unique(groups[present]):
        chosen = present & (groups == index)
        text = words[chosen] if words.size else None
        figure.add_trace(_points(points[chosen], int(index), names, text, int(present.sum())))
    drawn = len(figure.data)
    figure.update_layout(
        showlegend=drawn <= LEGEND_AT_MOST,
        legend={"x": 1.01, "y": 1, "xanchor": "left", "itemsizing": "constant"},
        xaxis={
            "title": {"text": "axis 1"},
            "showticklabels": False,
            "zeroline": False,
            "constrain": "domain",
        },
        yaxis={
            "title": {"text": "axis 2"},
            "showticklabels": False,
            "zeroline": False,
            "scaleanchor": "x",
            "constrain": "domain",
        },
        height=440,
    )
    many = f"{drawn} colours, too many for a legend: hover for the name"
    return entitle(
        figure,
        title,
        caption.noting(
            f"in the original space: {score}" if score else "",
            many if drawn > LEGEND_AT_MOST else "",
        ),
    )


def _points(
    points: NDArray[np.float64],
    index: int,
    names: Sequence[str],
    text: NDArray[np.object_] | None,
    total: int,
) -> go.Scatter | go.Scattergl:
    kind = go.Scattergl if total > WEBGL_FROM else go.Scatter
    none = index < 0
    name = "none" if none else shorten(names[index])
    turn = 0 if none else (index // len(theme.PALETTE)) % len(SYMBOLS)
    return kind(
        x=points[:, 0].astype(np.float32),
        y=points[:, 1].astype(np.float32),
        mode="markers",
        name=f"{plain(name)} ({len(points):,})",
        text=None if text is None else text.tolist(),
        marker={
            "color": theme.LINE if none else theme.colour(index),
            "symbol": SYMBOLS[turn],
            "size": 7 if total < 2_000 else 4,
            "opacity": 0.75,
        },
        hovertemplate="%{text}<br>" + plain(name) + "<extra></extra>"
        if text is not None
        else plain(name) + "<extra></extra>",
    )
