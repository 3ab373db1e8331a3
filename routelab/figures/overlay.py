"""What did the router do on this image? Expert maps and slot maps on the pixels.

Patches lie on the image; class and register tokens have no place in it and are drawn beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from routelab.figures import theme
from routelab.figures.axes import finite
from routelab.figures.caption import Caption, entitle, plain
from routelab.figures.pixels import data_uri

COLUMNS = 4
CELL = 0.12
"""Side of a prefix token's cell, in image sides."""
SIDE = 1.2
"""Width of a panel in image sides: the image, and a margin for prefix cells."""
PANEL = 215
LEGEND_AT_MOST = 16


class ExpertMap(NamedTuple):
    """The top expert of each token of one layer.

    Attributes
    ----------
    name
        Title of the panel.
    expert
        On the patch grid, shape (h, w) int, -1 for a dropped token; None for image-level routing,
        whose one decision stands beside the image.
    hardness
        Largest weight of each token, from 0 to 1, shape (h, w): the opacity; None with `expert`.
    prefix_expert, prefix_hardness
        The same for tokens that are no patch (class, registers, an image's one decision), (p,).
    """

    name: str
    expert: ArrayLike | None
    hardness: ArrayLike | None
    prefix_expert: ArrayLike = ()
    prefix_hardness: ArrayLike = ()


class WeightMap(NamedTuple):
    """The weight of one expert or one slot on each token, at least 0; shapes as `ExpertMap`."""

    name: str
    weight: ArrayLike
    prefix_weight: ArrayLike = ()


def expert_overlay(
    pixels: ArrayLike,
    maps: Sequence[ExpertMap],
    *,
    title: str,
    caption: Caption,
    prefix_names: Sequence[str] = (),
) -> go.Figure:
    """The image, then one panel a layer with each patch in its top expert's colour.

    Parameters
    ----------
    pixels
        uint8, shape (H, W, 3).
    maps
        One a layer.
    prefix_names
        Names of the prefix cells, for example "class", "r1".
    """
    figure = _panels(pixels, [map_.name for map_ in maps])
    seen: set[int] = set()
    for place, map_ in enumerate(maps, start=1):
        inks, experts = _expert_inks(map_)
        seen |= set(experts)
        if inks is not None:
            _lay(figure, inks, place)
        _cells(figure, place, *_prefix_inks(map_), prefix_names)
        seen |= {int(expert) for expert in np.asarray(map_.prefix_expert, dtype=np.int64)}
    _expert_legend(figure, sorted(seen - {-1}))
    note = "colour: expert with the largest weight; opacity: that weight"
    beside = "squares left of an image: tokens that are no patch"
    has_prefix = any(np.size(map_.prefix_expert) for map_ in maps)
    return entitle(
        figure,
        title,
        caption.noting(
            note,
            "no colour: dropped" if -1 in seen else "",
            beside if has_prefix else "",
        ),
    )


def weight_overlay(
    pixels: ArrayLike,
    maps: Sequence[WeightMap],
    *,
    unit: str,
    title: str,
    caption: Caption,
    prefix_names: Sequence[str] = (),
) -> go.Figure:
    """The image, then one panel an expert or slot with its weight on each patch.

    Every panel has its own scale from 0 to its largest weight, which its title states.
    """
    tops = [_top(map_) for map_ in maps]
    names = [f"{map_.name} (max {top:.3g})" for map_, top in zip(maps, tops, strict=True)]
    figure = _panels(pixels, names)
    for place, (map_, top) in enumerate(zip(maps, tops, strict=True), start=1):
        _lay(figure, _weight_inks(finite(map_.weight) / top), place)
        prefix = finite(map_.prefix_weight) / top
        inks = [f"rgba({r},{g},{b},{a / 255:.2f})" for r, g, b, a in _weight_inks(prefix)]
        words = [f"{weight:.3g}" for weight in finite(map_.prefix_weight)]
        _cells(figure, place, inks, words, prefix_names)
    return entitle(
        figure,
        title,
        caption.noting(f"bright and opaque: more {unit}; each panel has its own scale"),
    )


def _panels(pixels: ArrayLike, names: Sequence[str]) -> go.Figure:
    """A figure with the image once plain and once for each name, in rows of `COLUMNS`."""
    figure = go.Figure()
    colours = np.asarray(pixels, dtype=np.uint8)[..., :3]
    uri, faint = data_uri(colours), data_uri(_faint(colours))
    for place, name in enumerate(["image", *names]):
        left, top = _corner(place)
        figure.add_layout_image(_image(faint if place else uri, left, top, "below"))
        figure.add_annotation(
            x=left + 0.5,
            y=top + 0.02,
            yanchor="bottom",
            text=plain(name),
            showarrow=False,
            font={"size": theme.FINE},
        )
    rows = -(-(len(names) + 1) // COLUMNS)
    hidden = {"visible": False, "fixedrange": True}
    figure.update_layout(
        xaxis={**hidden, "range": [-0.2, SIDE * COLUMNS - 0.15], "constrain": "domain"},
        yaxis={
            **hidden,
            "range": [-1.18 * (rows - 1) - 1.02, 0.16],
            "scaleanchor": "x",
            "constrain": "domain",
        },
        height=PANEL * rows + 30,
        margin={"l": 12, "r": 12, "t": 8, "b": 12},
        legend={"orientation": "v", "x": 1.0, "y": 1, "xanchor": "left"},
    )
    return figure


def _faint(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Pale grey, so that the colours over it are the router's alone."""
    grey = pixels.mean(axis=2)
    return (90 + 0.65 * grey).clip(0, 255).astype(np.uint8)


def _corner(place: int) -> tuple[float, float]:
    """Left and top of a panel's image, in image sides; y grows upwards."""
    return SIDE * (place % COLUMNS), -1.18 * (place // COLUMNS)


def _image(uri: str, left: float, top: float, layer: str) -> dict[str, Any]:
    return {
        "source": uri,
        "xref": "x",
        "yref": "y",
        "x": left,
        "y": top,
        "sizex": 1,
        "sizey": 1,
        "xanchor": "left",
        "yanchor": "top",
        "sizing": "stretch",
        "layer": layer,
    }


def _lay(figure: go.Figure, inks: NDArray[np.uint8], place: int) -> None:
    """Put an RGBA grid over a panel's image; each cell is enlarged so that its edges stay sharp."""
    enlarge = max(1, -(-160 // max(inks.shape[:2])))
    sharp = inks.repeat(enlarge, axis=0).repeat(enlarge, axis=1)
    figure.add_layout_image(_image(data_uri(sharp), *_corner(place), "above"))


def _expert_inks(map_: ExpertMap) -> tuple[NDArray[np.uint8] | None, list[int]]:
    if map_.expert is None or map_.hardness is None:
        return None, []
    expert = np.asarray(map_.expert, dtype=np.int64)
    palette = np.array([theme.rgb(ink) for ink in theme.PALETTE], dtype=np.uint8)
    inks = np.zeros((*expert.shape, 4), dtype=np.uint8)
    inks[..., :3] = palette[expert % len(palette)]
    opacity = np.nan_to_num(np.clip(finite(map_.hardness), 0, 1))
    # a floor, so that a near-uniform router's colours can still be told apart
    inks[..., 3] = np.where(expert < 0, 0, 255 * (0.15 + 0.65 * opacity)).astype(np.uint8)
    return inks, np.unique(expert).tolist()


def _prefix_inks(map_: ExpertMap) -> tuple[list[str], list[str]]:
    experts = np.asarray(map_.prefix_expert, dtype=np.int64)
    opacity = np.nan_to_num(np.clip(finite(map_.prefix_hardness), 0, 1))
    inks = [
        theme.translucent(theme.colour(expert), 0.15 + 0.85 * alpha) if expert >= 0 else "#FFFFFF"
        for expert, alpha in zip(experts, opacity, strict=True)
    ]
    words = [
        f"expert {expert}, {alpha:.2f}" if expert >= 0 else "dropped"
        for expert, alpha in zip(experts, opacity, strict=True)
    ]
    return inks, words


def _top(map_: WeightMap) -> float:
    together = np.concatenate([finite(map_.weight).ravel(), finite(map_.prefix_weight).ravel()])
    top = float(np.nanmax(together)) if np.isfinite(together).any() else 0.0
    return top if top > 0 else 1.0


def _weight_inks(relative: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Viridis with an opacity that grows with the weight; shape (..., 4)."""
    scale = np.array([theme.rgb(ink) for ink in theme.SEQUENTIAL], dtype=np.float64)
    level = np.nan_to_num(np.clip(relative, 0, 1))
    inks = np.zeros((*level.shape, 4), dtype=np.uint8)
    stops = np.linspace(0, 1, len(scale))
    for channel in range(3):
        inks[..., channel] = np.interp(level, stops, scale[:, channel]).astype(np.uint8)
    inks[..., 3] = np.where(np.isfinite(relative), 255 * (0.35 + 0.5 * level), 0).astype(np.uint8)
    return inks


def _cells(
    figure: go.Figure,
    place: int,
    inks: Sequence[str],
    words: Sequence[str],
    names: Sequence[str],
) -> None:
    """Squares left of a panel's image, one for each token that is no patch."""
    if not len(inks):
        return
    left, top = _corner(place)
    labels = [names[i] if i < len(names) else f"prefix {i}" for i in range(len(inks))]
    for row, ink in enumerate(inks):
        y = top - row * (CELL + 0.03)
        figure.add_shape(
            type="rect",
            x0=left - CELL - 0.03,
            x1=left - 0.03,
            y0=y - CELL,
            y1=y,
            fillcolor=ink,
            line={"color": theme.QUIET, "width": 1},
        )
    figure.add_trace(
        go.Scatter(
            x=[left - 0.03 - CELL / 2] * len(inks),
            y=[top - row * (CELL + 0.03) - CELL / 2 for row in range(len(inks))],
            mode="markers",
            marker={"size": 14, "opacity": 0},
            text=[
                f"{plain(label)}: {plain(word)}" for label, word in zip(labels, words, strict=True)
            ],
            hovertemplate="%{text}<extra></extra>",
            showlegend=False,
        )
    )


def _expert_legend(figure: go.Figure, experts: Sequence[int]) -> None:
    for expert in experts[:LEGEND_AT_MOST]:
        _legend_entry(figure, f"expert {expert}", theme.colour(expert))
    if len(experts) > LEGEND_AT_MOST:
        _legend_entry(figure, f"and {len(experts) - LEGEND_AT_MOST} more", "rgba(0,0,0,0)")


def _legend_entry(figure: go.Figure, name: str, ink: str) -> None:
    """A point that is nowhere, for its entry in the legend."""
    marker = {"symbol": "square", "size": 12, "color": ink}
    nowhere = [float("nan")]
    figure.add_trace(go.Scatter(x=nowhere, y=nowhere, mode="markers", marker=marker, name=name))
