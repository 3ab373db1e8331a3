"""How does a figure stand in an HTML page that asks nothing of the network?"""

from __future__ import annotations

import html
import json

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from routelab.figures import theme
from routelab.figures.caption import plain

DRAW = """
for (const holder of document.querySelectorAll("script[data-figure]")) {
  setTimeout(() => {
    const figure = JSON.parse(holder.textContent);
    const place = document.getElementById(holder.dataset.figure);
    Plotly.newPlot(place, figure.data, figure.layout, figure.config);
  }, 0);
}
"""
"""Draws every figure of the page, one a task, so that the page can be read meanwhile."""


def figure_html(figure: go.Figure, identifier: str) -> str:
    """A place for the figure and its data; `library_html` once, at the end of the page, draws it.

    Parameters
    ----------
    identifier
        Unique in the page; letters, digits and hyphens.
    """
    content = json.loads(figure.to_json())
    whole = {"data": content["data"], "layout": content["layout"], "config": theme.config()}
    # "<" must not appear: a class named "</script>" would end the element
    data = json.dumps(whole, separators=(",", ":")).replace("<", "\\u003c")
    height = int(figure.layout.height or 450)
    title = plain(_bare(figure.layout.title.text or "figure")).replace('"', "&quot;")
    return (
        f'<div class="figure" id="{identifier}" role="img" aria-label="{title}" '
        f'style="height:{height}px"></div>\n'
        f'<script type="application/json" data-figure="{identifier}">{data}</script>'
    )


def library_html() -> str:
    """Plotly itself and the lines that draw the figures; nothing is loaded from elsewhere."""
    return f"<script>{get_plotlyjs()}</script>\n<script>{DRAW}</script>"


def _bare(title: str) -> str:
    """A title without the bold tags that `entitle` put around it, and unescaped."""
    return html.unescape(title.removeprefix("<b>").removesuffix("</b>"))
