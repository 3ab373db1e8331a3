"""What must a reader know before believing a figure? n, chance level, interval, traps."""

from __future__ import annotations

import html
import textwrap
from dataclasses import dataclass, replace

import plotly.graph_objects as go

from routelab.figures import theme

CHARACTERS = 108
"""Of caption text a line, so that a figure 760 pixels wide shows it whole."""
LINE_HEIGHT = 16


@dataclass(frozen=True, kw_only=True)
class Caption:
    """The small print under a title.

    Attributes
    ----------
    n
        How many things were counted.
    of
        What they are.
    chance
        What random routing would give, in words and numbers.
    interval
        What the interval is, for example "95 % bootstrap over images".
    notes
        How to read the figure.
    warnings
        What makes it flat or high by construction, or otherwise misleading; shown in red.
    """

    n: int
    of: str = "images"
    chance: str = ""
    interval: str = ""
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def noting(self, *notes: str) -> Caption:
        """The same caption with further notes; empty ones are left out."""
        return replace(self, notes=self.notes + tuple(note for note in notes if note))

    @property
    def facts(self) -> str:
        """One line: n, chance and interval."""
        parts = [f"n = {self.n:,} {self.of}"]
        parts.append(f"chance: {self.chance}" if self.chance else "no chance level")
        if self.interval:
            parts.append(f"interval: {self.interval}")
        return " · ".join(parts)


def plain(text: object) -> str:
    """Escape data for Plotly, which reads titles, labels and hover text as a subset of HTML."""
    return html.escape(str(text), quote=False)


def entitle(figure: go.Figure, title: str, caption: Caption) -> go.Figure:
    """Apply the theme, write the title and the caption under it, and make room for both."""
    lines = _wrap(caption.facts)
    for note in caption.notes:
        lines += _wrap(note)
    for warning in caption.warnings:
        lines += [
            f'<span style="color:{theme.ALARM}"><b>{line}</b></span>'
            for line in _wrap(f"⚠ {warning}")
        ]
    top = 44 + LINE_HEIGHT * len(lines) + _room_above(figure)
    bottom = figure.layout.height or 420
    figure.update_layout(
        template=theme.TEMPLATE,
        title={"text": f"<b>{plain(title)}</b>", "subtitle": {"text": "<br>".join(lines)}},
        margin={"t": top},
        height=bottom + top,
        meta={"n": caption.n, "caption": caption.facts},
    )
    return figure


def _wrap(text: str) -> list[str]:
    return [plain(line) for line in textwrap.wrap(text, CHARACTERS)]


def _room_above(figure: go.Figure) -> int:
    """Pixels that annotations and legends above the plot need, as the figure's maker left them."""
    return int(figure.layout.margin.t or 12)
