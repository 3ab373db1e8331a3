"""How does a dense checkpoint become a MoE model? Neurons are chosen, gathered, and remembered.

MoE Jetpack (arXiv 2406.04801, section 3.1): experts are made of hidden neurons of dense MLPs.
Sparse Upcycling (Komatsuzaki et al. 2023) is its special case "copy": every neuron, in order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from routelab.models import LineageTensors, build, moe_layers
from routelab.models.lineage import LINEAGE
from routelab.records import Lineage, LineageSource, ModelCard, MoESpec, Refusal
from routelab.recycling.anatomy import axes_of, gathered, width_axis, widths_of
from routelab.recycling.blocks import dense_mlps, exact_gelu, is_convnext
from routelab.recycling.choosing import (
    channels_name,
    choose_neurons,
    expert_banks,
    expert_channels,
    expert_groups,
    group_size,
    neurons_name,
)
from routelab.recycling.gathering import expert_weights, fill_bank
from routelab.recycling.narrowing import Index, body_index, narrowed_arguments, narrowed_widths
from routelab.recycling.options import RecycleOptions
from routelab.recycling.selection import FALLBACK, available_method, check_sizes
from routelab.recycling.selection.layer import Indices
from routelab.recycling.sources import DenseSource
from routelab.recycling.statistics import ActivationStatistics


class Recycled(NamedTuple):
    """A MoE model made of a dense one, in evaluation mode, its card, and what to know of it."""

    model: nn.Module
    card: ModelCard
    notes: tuple[str, ...] = ()


def recycle(
    body: DenseSource,
    spec: MoESpec,
    options: RecycleOptions | None = None,
    *,
    experts: DenseSource | None = None,
    statistics: ActivationStatistics | None = None,
) -> Recycled:
    """A MoE model whose experts are made of neurons of a dense model's MLPs.

    Parameters
    ----------
    body
        Everything outside the MoE layers comes from here.
    spec
        Which blocks, which router (freshly initialised), which groups of experts.
    options
        How neurons and channels are chosen; by default importance, and the body's own width.
    experts
        A second source, for the experts; None: the body.
    statistics
        Of the experts' source; needed by "importance" and "graph".

    Raises
    ------
    Refusal
        Anything that does not fit: see the messages; nothing is built then.
    """
    asked = options or RecycleOptions()
    options = _possible(asked)
    origin = experts or body
    check_fit(body, spec, options, origin)
    if options.looks_at_images and statistics is None:
        raise Refusal(f"method {options.method!r} needs activation statistics; give them")
    measured = None if statistics is None else statistics.layers
    generator = np.random.default_rng(options.seed)
    index = body_index(body, options, measured if origin is body else None, generator)
    channels = expert_channels(body, origin, options, measured, index, generator)
    chosen = choose_neurons(origin, spec, options, measured, channels, generator)
    remembered = {f"body_{axis.replace('.', '_')}": indices for axis, indices in index.items()}
    remembered |= chosen
    card = _card(body, spec, options, origin, statistics, remembered)
    model = build(card, seed=options.seed)
    _fill_body(model, body, index)
    _fill_experts(model, origin, chosen, options)
    lineage = model.get_submodule(LINEAGE)
    assert isinstance(lineage, LineageTensors)
    lineage.fill(remembered)
    whole = {} if card.lineage is None else _whole_groups(chosen, card.lineage)
    return Recycled(model, card, _notes(body, origin, spec, asked, whole))


def check_fit(
    body: DenseSource,
    spec: MoESpec,
    options: RecycleOptions,
    experts: DenseSource,
) -> None:
    """Refuse sources, spec and options that do not go together."""
    if is_convnext(body.model) != is_convnext(experts.model):
        raise Refusal(
            f"a body of {body.card.architecture} cannot take experts of "
            f"{experts.card.architecture}: a ViT and a ConvNeXt do not mix"
        )
    widths, blocks = narrowed_widths(body, options.width), dense_mlps(experts.model)
    narrowed_arguments(body, options)
    there, groups = dense_mlps(body.model), expert_groups(spec).values()
    for layer in spec.layers:
        if layer >= min(len(blocks), len(there)):
            last = min(len(blocks), len(there)) - 1
            raise Refusal(f"layer {layer} is out of range; the blocks are numbered 0 to {last}")
        width, mlp = widths[width_axis(body.model, there[layer].path)], blocks[layer]
        if mlp.width < width:
            raise Refusal(
                f"the experts' source {experts.card.architecture} has width {mlp.width} and "
                f"cannot fill a layer of width {width}; take a wider one, or lower --width"
            )
        check_sizes(mlp.hidden, [group_size(group, width) for group in groups])
    if narrowed_widths(experts, next(iter(widths.values()))) != widths:
        raise Refusal(
            f"the stages of {experts.card.architecture} do not shrink to {tuple(widths.values())}; "
            "take a source whose stages have the body's proportions"
        )


def _card(
    body: DenseSource,
    spec: MoESpec,
    options: RecycleOptions,
    origin: DenseSource,
    statistics: ActivationStatistics | None,
    remembered: Mapping[str, Indices],
) -> ModelCard:
    """The card of the MoE model."""
    lineage = Lineage(
        method=options.method,
        options=options.model_dump(exclude={"method"}),
        body=_source(body),
        experts=_source(origin),
        available={
            f"{mlp.depth:02d}": mlp.hidden
            for mlp in dense_mlps(origin.model)
            if mlp.depth in spec.layers
        },
        images=0 if statistics is None else statistics.images,
        data="" if statistics is None else statistics.data,
        tensors={name: indices.shape for name, indices in remembered.items()},
    )
    says = f"recycled by {options.method} from {origin.name}"
    if origin is not body:
        says += f", body from {body.name}"
    return body.card.model_copy(
        update={
            "arguments": body.card.arguments | narrowed_arguments(body, options),
            "spec": spec,
            "source": says,
            "lineage": lineage,
            "metrics": {},
            "sha256": "",
        }
    )


def _source(source: DenseSource) -> LineageSource:
    return LineageSource(
        architecture=source.card.architecture,
        sha256=source.sha256,
        widths=tuple(widths_of(source.model).values()),
    )


@torch.no_grad()
def _fill_body(model: nn.Module, body: DenseSource, index: Index) -> None:
    """Everything outside the MoE layers, cut along its axes."""
    inside = (f"{LINEAGE}.", *(f"{name}." for name in moe_layers(model)))
    axes = axes_of(body.model) if index else {}
    source = body.model.state_dict()
    for name, weight in model.state_dict().items():
        if not name.startswith(inside):
            weight.copy_(gathered(source[name], axes.get(name, ()), index))


def _fill_experts(
    model: nn.Module,
    origin: DenseSource,
    chosen: Mapping[str, Indices],
    options: RecycleOptions,
) -> None:
    """The experts of every MoE layer."""
    mlps = dense_mlps(origin.model)
    noise = torch.Generator().manual_seed(options.seed)
    layers = moe_layers(model).values()
    for layer, depth in zip(layers, sorted(next(iter(layers)).spec.layers), strict=True):
        for name, bank in expert_banks(layer).items():
            own, common = channels_name(depth, name), channels_name(depth)
            weights = expert_weights(
                mlps[depth], chosen[neurons_name(depth, name)], chosen.get(own, chosen.get(common))
            )
            fill_bank(bank, weights, noise=options.noise, generator=noise)


def _possible(options: RecycleOptions) -> RecycleOptions:
    """The options with a partitioner that is installed."""
    if options.method != "graph":
        return options
    return options.model_copy(update={"partitioner": available_method(options.partitioner)})


def _whole_groups(chosen: Mapping[str, Indices], lineage: Lineage) -> dict[str, int]:
    """Groups of several experts of which each takes every neuron, and how many those are."""
    whole = {}
    for name, indices in chosen.items():
        _, depth, kind, *group = name.split("_", 3)
        if kind == "neurons" and len(indices) > 1 and indices.shape[1] == lineage.available[depth]:
            whole[group[0]] = indices.shape[1]
    return whole


def _notes(
    body: DenseSource,
    origin: DenseSource,
    spec: MoESpec,
    asked: RecycleOptions,
    whole: Mapping[str, int],
) -> tuple[str, ...]:
    """What was done otherwise than asked, or differs from the dense model, in sentences."""
    notes = []
    if _possible(asked) != asked:
        notes.append(FALLBACK)
    if origin is not body and asked.width is not None and asked.channel_rule == "importance":
        notes.append(
            "the body keeps evenly spaced channels: images were shown to the experts' source"
        )
    mlps = dense_mlps(origin.model)
    if asked.method != "copy":
        notes += [
            f"every expert of group {name} takes all {available} neurons: they are copies; "
            "lower the group's hidden ratio"
            for name, available in whole.items()
        ]
    if not all(exact_gelu(mlps[depth]) for depth in spec.layers):
        kind = type(mlps[spec.layers[0]].act).__name__
        notes.append(
            f"the MLPs of {origin.card.architecture} use {kind} and experts the exact GELU: "
            "recycled layers differ from them by that too"
        )
    return tuple(notes)
