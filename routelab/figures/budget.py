"""How much of what a router says depends on class, on image, on token, or on nothing?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from routelab.figures import theme
from routelab.figures.axes import category_axis, distinct, finite, gap_note
from routelab.figures.caption import Caption, entitle, plain

TERM_COLOURS = {
    "class": theme.PALETTE[5],
    "image": theme.PALETTE[1],
    "token": theme.PALETTE[0],
    "residual": "#C4C8D0",
}


def budget_stack(
    terms: Mapping[str, ArrayLike],
    *,
    layers: Sequence[str],
    title: str,
    caption: Caption,
    ceiling: ArrayLike | None = None,
    intervals: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None,
) -> go.Figure:
    """Information budget as one stacked bar a layer, in nats.

    Parameters
    ----------
    terms
        Values by term, each of shape (L,): "class", "image", "token" and "residual", drawn from the
        bottom in the order given.
    layers
        Names of the L layers.
    ceiling
        ln E of each layer, shape (L,): what a balanced layer's bar adds up to.
    intervals
        Low and high end by term, each (L,); drawn at the upper edge of the term.
    """
    figure = go.Figure()
    places = distinct(layers)
    for index, (name, values) in enumerate(terms.items()):
        figure.add_trace(
            go.Bar(
                x=places,
                y=finite(values),
                name=plain(name),
                marker={"color": TERM_COLOURS.get(name, theme.colour(index + 6))},
                error_y=_error(values, (intervals or {}).get(name)),
                hovertemplate="layer %{x}<br>%{y:.4f} nats",
            )
        )
    if ceiling is not None:
        figure.add_trace(
            go.Scatter(
                x=places,
                y=finite(ceiling),
                name="ln E",
                mode="markers",
                marker={
                    "symbol": "line-ew-open",
                    "size": 34,
                    "color": theme.INK,
                    "line": {"width": 2},
                },
                hovertemplate="layer %{x}<br>ln E = %{y:.4f} nats",
            )
        )
    figure.update_layout(
        barmode="relative",
        bargap=0.35,
        xaxis=category_axis(layers, title="layer (depth)"),
        yaxis={"title": {"text": "nats"}},
        legend={"x": 1.01, "y": 1, "xanchor": "left", "traceorder": "reversed"},
        height=340,
    )
    gaps = [gap_note(values, "no bar") for values in terms.values()]
    return entitle(figure, title, caption.noting(next(filter(None, gaps), "")))


def _error(
    values: ArrayLike, interval: tuple[ArrayLike, ArrayLike] | None
) -> dict[str, object] | None:
    """Plotly's error bar of a term, or None."""
    if interval is None:
        return None
    low, high = (np.asarray(end, dtype=np.float64) for end in interval)
    middle = np.asarray(values, dtype=np.float64)
    return {
        "type": "data",
        "symmetric": False,
        "array": finite(high - middle),
        "arrayminus": finite(middle - low),
        "color": theme.INK,
        "thickness": 1,
        "width": 4,
    }
