"""What is each expert made of, how much do experts share, and how far have they come since?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from scipy.stats import hypergeom
from torch import nn

from routelab.models import lineage_arrays, moe_layers
from routelab.records import Lineage, ModelCard, Refusal
from routelab.recycling.blocks import dense_mlps
from routelab.recycling.choosing import channels_name, expert_banks, expert_groups, neurons_name
from routelab.recycling.gathering import expert_weights
from routelab.recycling.selection.layer import FloatArray, Indices
from routelab.recycling.sources import DenseSource


class LineageRow(NamedTuple):
    """One group of experts of one layer.

    `distinct` experts differ in their neurons; `coverage` is the share of the source's neurons that
    any of them has; `overlap` the mean Jaccard index of pairs, `chance` that of random subsets;
    `alignment` the mean share of channels that stand where the body has them.
    """

    layer: str
    group: str
    experts: int
    hidden: int
    available: int
    distinct: int
    coverage: float
    overlap: float
    chance: float
    alignment: float


def coverage(neurons: Indices, available: int) -> float:
    """Share of `available` neurons that at least one expert `(E, h)` has."""
    return len(np.unique(neurons)) / available


def jaccard_matrix(neurons: Indices, available: int) -> FloatArray:
    """Jaccard index |A ∩ B| / |A ∪ B| of the neurons `(E, h)` of each pair of experts, `(E, E)`."""
    member = np.zeros((len(neurons), available))
    np.put_along_axis(member, neurons, 1.0, axis=1)
    both = member @ member.T
    size = np.diag(both)
    return np.asarray(both / (size[:, None] + size - both))


def mean_overlap(neurons: Indices, available: int) -> float:
    """Mean Jaccard index over pairs of different experts; NaN for a single one."""
    count = len(neurons)
    if count < 2:
        return float("nan")
    matrix = jaccard_matrix(neurons, available)
    return float((matrix.sum() - np.trace(matrix)) / (count * (count - 1)))


def chance_overlap(hidden: int, available: int) -> float:
    """Expected Jaccard index of two random subsets of `hidden` of `available` neurons."""
    common = np.arange(hidden + 1)
    probability = hypergeom.pmf(common, available, hidden, hidden)
    return float(probability @ (common / (2 * hidden - common)))


def channel_alignment(channels: Indices, reference: Indices) -> FloatArray:
    """Share of places that hold the reference's source channel, of each row of `(…, c)`.

    1 where experts read and write the channels that the body has there; about c / d² · c by chance.
    """
    return np.asarray((channels == reference).mean(axis=-1), dtype=np.float64)


def lineage_rows(model: nn.Module, card: ModelCard) -> list[LineageRow]:
    """A row for each group of each layer of a recycled model; none for any other."""
    if card.lineage is None or card.spec is None:
        return []
    kept = lineage_arrays(model)
    return [
        _row(kept, card.lineage, depth, group)
        for depth in sorted(card.spec.layers)
        for group in expert_groups(card.spec)
    ]


@torch.no_grad()
def drift(model: nn.Module, card: ModelCard, source: DenseSource) -> dict[str, FloatArray]:
    """How far each expert's weights are from those it was made of, by `LAYER/GROUP`, `(E,)`.

    ‖W - W₀‖ / ‖W₀‖ over all four weights of an expert; 0 right after recycling without noise.

    Raises
    ------
    Refusal
        A model that was not recycled, or not from this source.
    """
    if card.lineage is None or card.spec is None:
        raise Refusal("the model was not recycled; it has no origin to drift from")
    if source.sha256 != card.lineage.experts.sha256:
        raise Refusal(
            f"the experts were made of {card.lineage.experts.architecture} "
            f"{card.lineage.experts.sha256[:12]}, not of {source.name}; give that checkpoint"
        )
    kept, mlps = lineage_arrays(model), dense_mlps(source.model)
    found = {}
    for depth, layer in zip(sorted(card.spec.layers), moe_layers(model).values(), strict=True):
        for group, bank in expert_banks(layer).items():
            neurons = kept[neurons_name(depth, group)]
            origin = expert_weights(mlps[depth], neurons, _channels(kept, depth, group))
            moved, size = torch.zeros(len(neurons)), torch.zeros(len(neurons))
            for name, weight in origin._asdict().items():
                now = getattr(bank, name).detach().cpu()
                moved += (now - weight).square().flatten(1).sum(1)
                size += weight.square().flatten(1).sum(1)
            found[f"{depth:02d}/{group}"] = (moved / size).sqrt().numpy().astype(np.float64)
    return found


def _row(kept: Mapping[str, Indices], lineage: Lineage, depth: int, group: str) -> LineageRow:
    neurons = kept[neurons_name(depth, group)]
    available, hidden = lineage.available[f"{depth:02d}"], neurons.shape[1]
    return LineageRow(
        layer=f"{depth:02d}",
        group=group,
        experts=len(neurons),
        hidden=hidden,
        available=available,
        distinct=len(np.unique(neurons, axis=0)),
        coverage=coverage(neurons, available),
        overlap=mean_overlap(neurons, available),
        chance=chance_overlap(hidden, available),
        alignment=_alignment(kept, lineage, depth, group),
    )


def _alignment(kept: Mapping[str, Indices], lineage: Lineage, depth: int, group: str) -> float:
    """NaN for two sources: their channels have nothing to do with each other."""
    channels, body = _channels(kept, depth, group), kept.get("body_width")
    if lineage.body.sha256 != lineage.experts.sha256:
        return float("nan")
    if channels is None or body is None:
        return 1.0
    return float(channel_alignment(channels, body).mean())


def _channels(kept: Mapping[str, Indices], depth: int, group: str) -> Indices | None:
    """Channels of a group's experts `(E, c)`, of the layer `(c,)`, or None for all."""
    return kept.get(channels_name(depth, group), kept.get(channels_name(depth)))
