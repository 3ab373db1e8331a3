"""How do names become axes that stay readable from one place to a thousand?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from routelab.figures import theme
from routelab.figures.caption import plain

FloatArray = NDArray[np.float64]
LONGEST = 28


class Group(NamedTuple):
    """Experts `start` to `stop` (exclusive) that belong together, for example "core"."""

    name: str
    start: int
    stop: int


def distinct(names: Sequence[object]) -> list[str]:
    """Names as category labels: escaped, and numbered where two are alike.

    Plotly draws equal categories at one place, which would hide one of them.
    """
    return [plain(name) for name in _numbered(names)]


def _numbered(names: Sequence[object]) -> list[str]:
    words = [str(name) for name in names]
    counts = Counter(words)
    return [f"{word} ({i})" if counts[word] > 1 else word for i, word in enumerate(words)]


def shorten(name: str, most: int = LONGEST) -> str:
    """A name cut to `most` characters."""
    return name if len(name) <= most else name[: most - 1] + "…"


def category_axis(names: Sequence[object], *, title: str = "", most: int = 40) -> dict[str, Any]:
    """Axis over named places; with more than `most` only every n-th name is written.

    Hover text still shows every name in full.
    """
    words, labels = _numbered(names), distinct(names)
    step = -(-len(labels) // most) if labels else 1
    shown = list(range(0, len(labels), max(step, 1)))
    note = f" (every {step}th name)" if step > 1 else ""
    return {
        "type": "category",
        "categoryorder": "array",
        "categoryarray": labels,
        "title": {"text": plain(title) + note},
        "tickmode": "array",
        "tickvals": [labels[place] for place in shown],
        "ticktext": [plain(shorten(words[place])) for place in shown],
    }


def finite(values: ArrayLike) -> FloatArray:
    """Float64 copy in which infinities are NaN, which Plotly leaves out."""
    array = np.array(values, dtype=np.float64)
    array[~np.isfinite(array)] = np.nan
    return array


def reach(values: ArrayLike, least: float = 1e-9) -> float:
    """Largest finite magnitude, for a symmetric colour range; at least `least`."""
    array = np.abs(finite(values))
    return max(float(np.nanmax(array)), least) if np.isfinite(array).any() else 1.0


def gap_note(values: ArrayLike, what: str = "grey") -> str:
    """The note a figure carries when it has gaps; empty where it has none."""
    return f"{what}: undefined (NaN)" if not np.isfinite(np.asarray(values)).all() else ""


def group_marks(groups: Sequence[Group], axis: str = "x") -> dict[str, Any]:
    """Layout shapes and annotations that part an expert axis into groups; none for one group."""
    if len(groups) < 2:
        return {"shapes": [], "annotations": []}
    shapes = [
        {
            "type": "line",
            "xref": axis,
            "yref": "paper",
            "x0": group.start - 0.5,
            "x1": group.start - 0.5,
            "y0": 0,
            "y1": 1,
            "line": {"color": theme.INK, "width": 1.5},
        }
        for group in groups[1:]
    ]
    notes = [
        {
            "xref": axis,
            "yref": "paper",
            "x": (group.start + group.stop - 1) / 2,
            "y": 1,
            "yanchor": "bottom",
            "text": plain(group.name),
            "showarrow": False,
            "font": {"size": theme.FINE, "color": theme.QUIET},
        }
        for group in groups
    ]
    return {"shapes": shapes, "annotations": notes}
