"""How do sections become HTML in which every name is data and nothing is loaded from elsewhere?"""

from __future__ import annotations

import html
import itertools
from collections.abc import Iterable, Mapping, Sequence

from routelab.figures import figure_html, library_html
from routelab.report.content import (
    Block,
    Details,
    Facts,
    Notices,
    Picture,
    Section,
    Table,
    Words,
)
from routelab.report.style import CSS

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'unsafe-eval'; "
    "img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'"
)
"""The browser refuses every request; 'unsafe-eval' is for WebGL, whose programs Plotly compiles."""


def escape(text: object) -> str:
    """Data as HTML text, safe in attributes too."""
    return html.escape(str(text), quote=True)


def page(
    title: str,
    subtitle: str,
    tiles: Sequence[tuple[str, str, str]],
    sections: Mapping[str, Section],
) -> str:
    """The whole document.

    Parameters
    ----------
    tiles
        (value, name, class) of the numbers at the top; the class is "", "good" or "bad".
    sections
        By key, in reading order.
    """
    numbers = itertools.count()
    body = "\n".join(section_html(key, section, numbers) for key, section in sections.items())
    links = "\n".join(
        f'<li><a href="#{escape(key)}">{escape(section.title)}</a></li>'
        for key, section in sections.items()
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<link rel="icon" href="data:,">
<style>{CSS}</style>
</head>
<body>
<div class="page">
<nav aria-label="contents"><ol>{links}</ol></nav>
<main>
<h1>{escape(title)}</h1>
<p class="subtitle">{escape(subtitle)}</p>
<div class="tiles">{_tiles(tiles)}</div>
{body}
<footer>This page holds everything it shows; it loads nothing.</footer>
</main>
</div>
{library_html()}
</body>
</html>
"""


def _tiles(tiles: Sequence[tuple[str, str, str]]) -> str:
    return "".join(
        f'<div class="tile"><b class="{escape(kind)}">{escape(value)}</b>'
        f"<span>{escape(name)}</span></div>"
        for value, name, kind in tiles
    )


def section_html(key: str, section: Section, numbers: Iterable[int]) -> str:
    """One section; `numbers` gives each figure its identifier."""
    counter = iter(numbers)
    blocks = "\n".join(block_html(block, counter) for block in section.blocks)
    question = f'<p class="question">{escape(section.question)}</p>' if section.question else ""
    return (
        f'<section id="{escape(key)}">\n<h2>{escape(section.title)}</h2>\n{question}\n{blocks}\n'
        "</section>"
    )


def block_html(block: Block, numbers: Iterable[int]) -> str:
    """One block as HTML."""
    match block:
        case Words(text):
            return f"<p>{escape(text)}</p>"
        case Facts(rows):
            return _definitions(rows)
        case Table():
            return _table(block)
        case Notices(rows):
            return _notices(rows)
        case Details(title, rows):
            return f"<details><summary>{escape(title)}</summary>{_definitions(rows)}</details>"
        case Picture(figure):
            return figure_html(figure, f"figure-{next(iter(numbers))}")


def _definitions(rows: Sequence[tuple[str, str]]) -> str:
    return "<dl>" + "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in rows) + "</dl>"


def _notices(rows: Sequence[tuple[str, str]]) -> str:
    items = "".join(
        f'<li>{escape(text)} <a href="#{escape(key)}">details</a></li>' for text, key in rows
    )
    return f'<ul class="notices">{items}</ul>'


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in table.columns)
    rows = "".join(
        f"<tr{_mark(row, table)}>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>"
        for row in table.rows
    )
    title = f"<caption>{escape(table.title)}</caption>" if table.title else ""
    return (
        f'<div class="wide"><table>{title}<thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _mark(row: Sequence[str], table: Table) -> str:
    return ' class="marked"' if row and row[0] in table.marked else ""
