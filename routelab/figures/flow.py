"""Where do images or tokens go from one layer's experts to the next layer's?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from routelab.figures import theme
from routelab.figures.axes import finite
from routelab.figures.caption import Caption, entitle, plain

FloatArray = NDArray[np.float64]


def expert_flow(
    joint: Sequence[ArrayLike],
    *,
    layers: Sequence[str],
    title: str,
    caption: Caption,
    threshold: float = 0.0,
    most: int = 12,
) -> go.Figure:
    """Sankey diagram across layers; experts with little flow are drawn together as "other".

    Parameters
    ----------
    joint
        For each pair of neighbouring layers the share that goes from expert i to expert j, shape
        (E_l, E_{l+1}), summing to 1.
    layers
        Names of the L layers, one more than pairs.
    threshold
        An expert below this share of its layer's flow joins "other".
    most
        Experts of a layer drawn by themselves at most.
    """
    flows = [np.nan_to_num(finite(pair)) for pair in joint]
    kept = _kept(flows, threshold, most)
    offsets = np.cumsum([0, *[len(place) + 1 for place in kept]])
    merged = [_merge(flow, kept[pair], kept[pair + 1]) for pair, flow in enumerate(flows)]
    figure = go.Figure()
    # Plotly cannot draw a diagram of no flow: one layer, or nothing routed
    if any(pair.any() for pair in merged):
        node, link = _linked(_nodes(merged, kept, layers), _links(merged, kept, offsets))
        figure.add_trace(
            go.Sankey(
                arrangement="fixed",
                node=node,
                link=link,
                valueformat=".1%",
                textfont={"size": theme.FINE, "color": theme.INK},
            )
        )
    for place, layer in enumerate(layers):
        figure.add_annotation(
            x=_x(place, len(layers)),
            y=1.0,
            xref="paper",
            yref="paper",
            yanchor="bottom",
            text=f"layer {plain(layer)}",
            showarrow=False,
            font={"size": theme.FINE, "color": theme.QUIET},
        )
    figure.update_layout(
        height=430,
        margin={"t": 30, "l": 30, "r": 60},
        xaxis={"visible": False},
        yaxis={"visible": False},
    )
    folded = any(np.setdiff1d(np.arange(_size(flows, i)), k).size for i, k in enumerate(kept))
    note = f'"other": experts below {threshold:.1%} of a layer, or beyond its {most} largest'
    nothing = "" if figure.data else "nothing flows: there is one layer, or nothing was routed"
    return entitle(figure, title, caption.noting(note if folded else "", nothing))


def _size(flows: Sequence[FloatArray], layer: int) -> int:
    return flows[layer].shape[0] if layer < len(flows) else flows[-1].shape[1]


def _mass(flows: Sequence[FloatArray], layer: int) -> FloatArray:
    """Share of each expert of a layer: what leaves it, or in the last layer what arrives."""
    mass = flows[layer].sum(axis=1) if layer < len(flows) else flows[-1].sum(axis=0)
    return np.asarray(mass, dtype=np.float64)


def _kept(flows: Sequence[FloatArray], threshold: float, most: int) -> list[NDArray[np.int64]]:
    """Experts of each layer that are drawn by themselves, in index order."""
    kept = []
    for layer in range(len(flows) + 1 if flows else 0):
        mass = _mass(flows, layer)
        largest = np.argsort(-mass, kind="stable")[:most]
        kept.append(np.sort(largest[(mass[largest] >= threshold) & (mass[largest] > 0)]))
    return kept


def _merge(flow: FloatArray, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> FloatArray:
    """The flow with all experts that are not kept summed into one last row and column."""
    other_rows = np.setdiff1d(np.arange(flow.shape[0]), rows)
    other_columns = np.setdiff1d(np.arange(flow.shape[1]), columns)
    tall = np.vstack([flow[rows], flow[other_rows].sum(axis=0, keepdims=True)])
    return np.hstack([tall[:, columns], tall[:, other_columns].sum(axis=1, keepdims=True)])


def _x(layer: int, layers: int) -> float:
    return 0.5 if layers < 2 else layer / (layers - 1)


def _nodes(
    merged: Sequence[FloatArray], kept: Sequence[NDArray[np.int64]], layers: Sequence[str]
) -> dict[str, Any]:
    labels: list[str] = []
    colours: list[str] = []
    x: list[float] = []
    y: list[float] = []
    for layer, experts in enumerate(kept):
        mass = _mass(merged, layer)
        middle = (np.cumsum(mass) - mass / 2) / max(mass.sum(), 1e-12)
        x += [float(np.clip(_x(layer, len(layers)), 0.001, 0.999))] * mass.size
        # gaps between nodes: Plotly reads positions as centres and 0 as "not given"
        y += np.clip(0.02 + 0.96 * middle, 0.001, 0.999).tolist()
        labels += [f"{expert}" for expert in experts] + ["other"]
        colours += [theme.colour(int(expert)) for expert in experts] + [theme.CHANCE]
    return {
        "label": labels,
        "color": colours,
        "x": x,
        "y": y,
        "pad": 6,
        "thickness": 14,
        "line": {"width": 0},
        "hovertemplate": "expert %{label}: %{value}<extra></extra>",
    }


def _links(
    merged: Sequence[FloatArray],
    kept: Sequence[NDArray[np.int64]],
    offsets: NDArray[np.int64],
) -> dict[str, Any]:
    source: list[int] = []
    target: list[int] = []
    value: list[float] = []
    colours: list[str] = []
    for pair, flow in enumerate(merged):
        for i, j in zip(*np.nonzero(flow > 0), strict=True):
            source.append(int(offsets[pair] + i))
            target.append(int(offsets[pair + 1] + j))
            value.append(float(flow[i, j]))
            alone = i < kept[pair].size
            ink = theme.colour(int(kept[pair][i])) if alone else theme.CHANCE
            colours.append(theme.translucent(ink, 0.35))
    return {
        "source": source,
        "target": target,
        "value": value,
        "color": colours,
        "hovertemplate": "%{source.label} → %{target.label}: %{value}<extra></extra>",
    }


def _linked(node: dict[str, Any], link: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Only the nodes that something flows through.

    Plotly leaves the others out when it draws, and gives their positions to the nodes after them.
    """
    used = sorted({*link["source"], *link["target"]})
    number = {old: new for new, old in enumerate(used)}
    arrays = {name: [node[name][old] for old in used] for name in ("label", "color", "x", "y")}
    ends = {end: [number[old] for old in link[end]] for end in ("source", "target")}
    return node | arrays, link | ends
