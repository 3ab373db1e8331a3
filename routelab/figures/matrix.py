"""Which experts, layers or partitions go together, beside what independence would give?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from routelab.figures import theme
from routelab.figures.axes import Group, category_axis, finite, gap_note, group_marks, reach
from routelab.figures.caption import Caption, entitle, plain
from routelab.figures.panels import name_axes, panels

PANEL = 200


def expert_matrices(
    matrices: Mapping[str, ArrayLike],
    *,
    unit: str,
    title: str,
    caption: Caption,
    middle: float | None = None,
) -> go.Figure:
    """Expert × expert matrices, one panel each, on one colour scale.

    Parameters
    ----------
    matrices
        Square arrays by the name of their panel; sizes may differ; NaN is grey.
    unit
        Title of the colour bar.
    middle
        The chance level, drawn white on a diverging scale; None draws magnitudes from 0.
    """
    values = [finite(matrix).astype(np.float32) for matrix in matrices.values()]
    side = PANEL if len(values) > 1 else 2 * PANEL
    figure, places = panels(list(matrices), height=side, gap=0.08)
    for place, (matrix, where) in enumerate(zip(values, places, strict=True), start=1):
        figure.add_trace(_panel(matrix, unit), **where)
        ticks = _expert_ticks(max(matrix.shape))
        figure.update_xaxes(ticks, **where)
        square = {"scaleanchor": f"x{place}" if place > 1 else "x", "autorange": "reversed"}
        figure.update_yaxes({**ticks, **square}, **where)
    name_axes(figure, places, "expert j", "expert i")
    figure.update_layout(coloraxis=_colours(values, unit, middle), plot_bgcolor=theme.UNDEFINED)
    everything = np.concatenate([matrix.ravel() for matrix in values]) if values else np.zeros(1)
    return entitle(figure, title, caption.noting(_middle_note(middle), gap_note(everything)))


def named_matrix(
    matrix: ArrayLike,
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    unit: str,
    title: str,
    caption: Caption,
    middle: float | None = None,
    groups: Sequence[Group] = (),
) -> go.Figure:
    """One matrix with named rows and columns, for example AMI between layers; options as above."""
    values = finite(matrix)
    figure = go.Figure(
        go.Heatmap(
            {
                "z": values.astype(np.float32),
                "x": category_axis(columns)["categoryarray"],
                "y": category_axis(rows)["categoryarray"],
                "coloraxis": "coloraxis",
                "hovertemplate": f"%{{y}} × %{{x}}<br>{plain(unit)} %{{z:.3g}}<extra></extra>",
            }
        )
    )
    side = int(np.clip(22 * max(len(rows), 8), 260, 760))
    figure.update_layout(
        **group_marks(groups),
        coloraxis=_colours([values], unit, middle),
        plot_bgcolor=theme.UNDEFINED,
        xaxis={**category_axis(columns), "showgrid": False, "constrain": "domain"},
        yaxis={
            **category_axis(rows),
            "showgrid": False,
            "autorange": "reversed",
            "scaleanchor": "x",
            "constrain": "domain",
        },
        height=side + 60,
        margin={"t": 26 if len(groups) > 1 else 10},
    )
    return entitle(figure, title, caption.noting(_middle_note(middle), gap_note(values)))


def _panel(matrix: NDArray[np.float32], unit: str) -> go.Heatmap:
    return go.Heatmap(
        {
            "z": matrix,
            "coloraxis": "coloraxis",
            "hovertemplate": f"%{{y}}, %{{x}}<br>{plain(unit)} %{{z:.3g}}<extra></extra>",
        }
    )


def _expert_ticks(experts: int) -> dict[str, Any]:
    ticks: dict[str, Any] = {"showgrid": False, "constrain": "domain"}
    return ticks | ({"dtick": 1} if experts <= 8 else {"nticks": 8, "tickformat": "d"})


def _colours(
    values: Sequence[NDArray[np.floating]], unit: str, middle: float | None
) -> dict[str, Any]:
    bar = theme.colour_bar(plain(unit))
    if middle is None:
        top = max((reach(matrix) for matrix in values), default=1.0)
        return {"colorscale": list(theme.SEQUENTIAL), "cmin": 0, "cmax": top, "colorbar": bar}
    edge = max((reach(matrix - middle) for matrix in values), default=1.0)
    return {
        "colorscale": list(theme.DIVERGING),
        "cmin": middle - edge,
        "cmax": middle + edge,
        "colorbar": bar,
    }


def _middle_note(middle: float | None) -> str:
    return "" if middle is None else f"{middle:.3g} (white): as by chance"
