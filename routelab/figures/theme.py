"""What do all figures share: colours, fonts, a light template, and a tool bar without a cloud?"""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go
import plotly.io

PALETTE = (
    "#0072B2",  # the eight of Okabe and Ito (2008), black as a dark grey, yellow last
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
    "#4D4D4D",
    "#F0E442",
    "#332288",  # extended by Paul Tol's "muted" scheme, which is safe for colour-blind readers too
    "#CC6677",
    "#117733",
    "#AA4499",
    "#88CCEE",
    "#882255",
    "#DDCC77",
    "#44AA99",
    "#999933",
)
"""Categorical colours; an index keeps its colour in every figure."""

SEQUENTIAL = (
    "#440154",
    "#482878",
    "#3E4989",
    "#31688E",
    "#26828E",
    "#1F9E89",
    "#35B779",
    "#6ECE58",
    "#B5DE2B",
    "#FDE725",
)
"""Viridis, for magnitudes from 0; perceptually uniform."""
DIVERGING = (
    "#053061",
    "#2166AC",
    "#4393C3",
    "#92C5DE",
    "#D1E5F0",
    "#F7F7F7",
    "#FDDBC7",
    "#F4A582",
    "#D6604D",
    "#B2182B",
    "#67001F",
)
"""ColorBrewer's RdBu, for deviations from a middle: blue is less, white is none, red is more."""

INK = "#1F2430"
QUIET = "#5B6270"
LINE = "#D9DCE3"
UNDEFINED = "#D3D6DD"
"""Behind heat maps: what shows through is NaN."""
CHANCE = "#7A808C"
ALARM = "#B3261E"
FONT = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif"
FONT_SIZE = 13
FINE = 12
"""Size of captions, tick labels and annotations."""


def colour(index: int) -> str:
    """Categorical colour of an index; after the last the palette starts again."""
    return PALETTE[int(index) % len(PALETTE)]


def rgb(hexadecimal: str) -> tuple[int, int, int]:
    """Red, green and blue of the colour `#RRGGBB`, each from 0 to 255."""
    red, green, blue = bytes.fromhex(hexadecimal.removeprefix("#"))
    return red, green, blue


def translucent(hexadecimal: str, alpha: float) -> str:
    """The colour `#RRGGBB` as `rgba(...)` with an opacity from 0 to 1."""
    red, green, blue = rgb(hexadecimal)
    return f"rgba({red},{green},{blue},{alpha:.3f})"


def _axis() -> dict[str, Any]:
    return {
        "automargin": True,
        "gridcolor": LINE,
        "linecolor": LINE,
        "zerolinecolor": LINE,
        "ticks": "outside",
        "tickcolor": LINE,
        "tickfont": {"size": FINE, "color": QUIET},
        "title": {"font": {"size": FONT_SIZE, "color": INK}, "standoff": 8},
    }


TEMPLATE = go.layout.Template(
    layout={
        "autosize": True,
        "colorway": list(PALETTE),
        "colorscale": {"sequential": list(SEQUENTIAL), "diverging": list(DIVERGING)},
        "font": {"family": FONT, "size": FONT_SIZE, "color": INK},
        "paper_bgcolor": "#FFFFFF",
        "plot_bgcolor": "#FFFFFF",
        "margin": {"l": 64, "r": 24, "t": 84, "b": 56},
        "title": {
            "x": 0.0,
            "xref": "container",
            "xanchor": "left",
            "y": 1.0,
            "yref": "container",
            "yanchor": "top",
            "pad": {"l": 12, "t": 12},
            "font": {"size": 16, "color": INK},
            "subtitle": {"font": {"size": FINE, "color": QUIET}},
        },
        "xaxis": _axis(),
        "yaxis": _axis(),
        "legend": {"font": {"size": FINE}, "bgcolor": "rgba(255,255,255,0.7)"},
        "hoverlabel": {"font": {"family": FONT, "size": FINE}, "align": "left"},
        "hovermode": "closest",
        "coloraxis": {"colorbar": {"outlinewidth": 0, "tickfont": {"size": FINE}}},
    },
)
plotly.io.templates["routelab"] = TEMPLATE


def colour_bar(title: str, **options: Any) -> dict[str, Any]:
    """Settings of a colour bar: its title stands on it, clear of the tick labels."""
    bar = {
        "title": {"text": f"{title}<br> ", "side": "top", "font": {"size": FINE}},
        "tickfont": {"size": FINE},
        "outlinewidth": 0,
        "thickness": 14,
    }
    return bar | options


def config() -> dict[str, Any]:
    """Settings for `Plotly.newPlot`: no logo, no button that sends data anywhere, no MathJax.

    Plotly.js 4 (Plotly for Python 7) shows a "send to cloud" button unless it is told not to.
    """
    return {
        "displaylogo": False,
        "showSendToCloud": False,
        "showEditInChartStudio": False,
        "showLink": False,
        "plotlyServerURL": "",
        "typesetMath": False,
        "responsive": True,
        "modeBarButtonsToRemove": ["sendChartToCloud", "select2d", "lasso2d", "autoScale2d"],
        "toImageButtonOptions": {"format": "png", "scale": 2},
    }
