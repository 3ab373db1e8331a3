"""Which neurons and channels of the experts' source does each expert of each layer get?"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from routelab.models import ExpertBank, MoELayer
from routelab.records import ExpertGroup, MoESpec, Refusal
from routelab.recycling.anatomy import width_axis
from routelab.recycling.blocks import DenseMlp, dense_mlps
from routelab.recycling.narrowing import Index, body_index, narrowed_widths
from routelab.recycling.options import RecycleOptions
from routelab.recycling.selection import Neurons, Size, random_neurons, selector
from routelab.recycling.selection.drawing import weighted_draws
from routelab.recycling.selection.layer import Indices
from routelab.recycling.sources import DenseSource
from routelab.recycling.statistics import LayerStatistics

SHARED = "shared"
"""Stands for the always-on experts in the names of their indices."""


def neurons_name(depth: int, group: str) -> str:
    """Name of the neurons `(E, h)` of a group in a recycled model's lineage."""
    return f"layer_{depth:02d}_neurons_{group}"


def channels_name(depth: int, group: str = "") -> str:
    """Name of the channels of a layer `(c,)`, or of a group's experts `(E, c)`."""
    return f"layer_{depth:02d}_channels_{group}".removesuffix("_")


def expert_groups(spec: MoESpec) -> dict[str, ExpertGroup]:
    """Groups of experts by the name in their lineage, always-on experts last.

    Raises
    ------
    Refusal
        A routed group of the name that stands for always-on experts.
    """
    groups = {group.name: group for group in spec.groups}
    if spec.shared is None:
        return groups
    if SHARED in groups:
        raise Refusal(f"a routed group cannot be named {SHARED!r} beside shared experts; rename it")
    return groups | {SHARED: spec.shared}


def expert_banks(layer: MoELayer) -> dict[str, ExpertBank]:
    """Banks of a layer by the name in their lineage, in the order of `expert_groups`."""
    banks = layer.experts.in_order()
    if layer.shared is not None:
        banks.append(layer.shared.bank)
    return dict(zip(expert_groups(layer.spec), banks, strict=True))


def group_size(group: ExpertGroup, width: int) -> Size:
    """Experts of a group and the hidden neurons of each, at a width."""
    return Size(group.experts, group.hidden(width))


def expert_channels(
    body: DenseSource,
    origin: DenseSource,
    options: RecycleOptions,
    measured: Mapping[int, LayerStatistics] | None,
    index: Index,
    generator: np.random.Generator,
) -> Index:
    """Channels of the experts' source that the target keeps, by width axis: the body's own index
    where there is one source, one of the same rule where there are two.
    """
    if origin is body:
        return index
    wanted = narrowed_widths(body, options.width)
    width = next(iter(wanted.values()))
    own = options.model_copy(update={"width": width, "qkv": "released"})
    found = body_index(origin, own, measured, generator, keep_dense=False)
    return {axis: indices for axis, indices in found.items() if axis in wanted}


def choose_neurons(
    origin: DenseSource,
    spec: MoESpec,
    options: RecycleOptions,
    measured: Mapping[int, LayerStatistics] | None,
    channels: Index,
    generator: np.random.Generator,
) -> dict[str, Indices]:
    """Neurons `LAYER_neurons_GROUP (E, h)`, and channels `LAYER_channels (c,)`, or `(E, c)` with
    the group's name, where not all are kept.
    """
    select = selector(
        options.method,
        draw=options.draw,
        parts=options.parts,
        weights=options.weights,
        partitioner=options.partitioner,
    )
    mlps, groups = dense_mlps(origin.model), expert_groups(spec)
    chosen: dict[str, Indices] = {}
    for depth in sorted(spec.layers):
        mlp, found = mlps[depth], None if measured is None else measured.get(depth)
        kept = channels.get(width_axis(origin.model, mlp.path))
        width = mlp.width if kept is None else len(kept)
        sizes = {name: group_size(group, width) for name, group in groups.items()}
        score = None if found is None else found.score(options.score)
        coactivation = None if found is None else found.coactivation
        neurons = select(Neurons(mlp.hidden, score, coactivation), list(sizes.values()), generator)
        for name, indices in zip(sizes, neurons, strict=True):
            chosen[neurons_name(depth, name)] = indices
        if kept is not None and options.channel_mode == "expert":
            for name, size in sizes.items():
                own = _channels_of_experts(options, found, mlp, size.experts, width, generator)
                chosen[channels_name(depth, name)] = own
        elif kept is not None:
            chosen[channels_name(depth)] = kept
    return chosen


def _channels_of_experts(
    options: RecycleOptions,
    found: LayerStatistics | None,
    mlp: DenseMlp,
    experts: int,
    wanted: int,
    generator: np.random.Generator,
) -> Indices:
    """Sorted channels `(E, c)` drawn anew for each expert, as MoE Jetpack's released code does:
    the comparison mode, in which experts do not read the channels that the body writes.
    """
    if options.channel_rule == "importance" and found is not None:
        drawn = weighted_draws(found.channel_score(), wanted, experts, generator)
        return np.sort(drawn, axis=1)
    return random_neurons(mlp.width, experts, wanted, generator)
