"""Which channels does a narrower network keep? One index for each axis, the same everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from routelab.records import Refusal
from routelab.recycling.anatomy import width_axis, widths_of
from routelab.recycling.blocks import dense_mlps, is_convnext
from routelab.recycling.options import RecycleOptions, Rule
from routelab.recycling.selection import important_neurons, random_neurons, uniform_indices
from routelab.recycling.selection.layer import FloatArray, Indices
from routelab.recycling.sources import DenseSource
from routelab.recycling.statistics import LayerStatistics

Index = dict[str, Indices]
"""Chosen indices by axis; an axis that is not named stays whole."""


def narrowed_widths(source: DenseSource, width: int | None) -> dict[str, int]:
    """Channels along each width axis of the target; a ConvNeXt's stages shrink in proportion.

    Raises
    ------
    Refusal
        If the source is narrower than that, or a stage's width would not be whole.
    """
    there = widths_of(source.model)
    first = next(iter(there.values()))
    if width is None or width == first:
        return there
    if width > first:
        raise Refusal(
            f"the source {source.card.architecture} has width {first} and cannot give a model of "
            f"width {width}; lower --width, or take a wider checkpoint"
        )
    if any(size * width % first for size in there.values()):
        raise Refusal(f"width {width} is no whole share of the stages {tuple(there.values())}")
    return {axis: size * width // first for axis, size in there.items()}


def narrowed_arguments(source: DenseSource, options: RecycleOptions) -> dict[str, Any]:
    """Arguments of timm.create_model for the narrower network; empty where the width stays.

    Raises
    ------
    Refusal
        If the width does not divide into heads.
    """
    widths = narrowed_widths(source, options.width)
    if widths == widths_of(source.model):
        return {}
    if is_convnext(source.model):
        return {"dims": tuple(widths.values())}
    width, (heads, head_width) = widths["width"], _heads(source)
    wanted = options.heads or (width // head_width if width % head_width == 0 else heads)
    if width % wanted or wanted > heads or width // wanted > head_width:
        raise Refusal(
            f"width {width} cannot be made of {wanted} of the source's {heads} heads of "
            f"{head_width} channels; give --heads, or another --width"
        )
    return {"embed_dim": width, "num_heads": wanted}


def body_index(
    source: DenseSource,
    options: RecycleOptions,
    statistics: Mapping[int, LayerStatistics] | None,
    generator: np.random.Generator,
    *,
    keep_dense: bool = True,
) -> Index:
    """Indices along every axis of the source that the target has fewer of.

    With statistics, "importance" takes the channels of the largest root mean square, averaged over
    the blocks that share them; without, it falls back on "uniform": the body of a second source is
    not looked at. With `keep_dense`, hidden neurons of all blocks are chosen by the same rule, in
    the ratio that the source has.
    """
    there, wanted = widths_of(source.model), narrowed_widths(source, options.width)
    if there == wanted:
        return {}
    rule = options.channel_rule
    scores = _channel_scores(source, statistics)
    index = {
        axis: one_index(rule, size, wanted[axis], scores.get(axis), generator)
        for axis, size in there.items()
    }
    if not is_convnext(source.model):
        index |= _attention(source, options, index["width"])
    if keep_dense:
        for mlp in dense_mlps(source.model):
            axis = width_axis(source.model, mlp.path)
            size = mlp.hidden * wanted[axis] // there[axis]
            found = statistics.get(mlp.depth) if statistics is not None else None
            score = None if found is None else found.score(options.score)
            index[f"hidden.{mlp.depth}"] = one_index(rule, mlp.hidden, size, score, generator)
    return index


def one_index(
    rule: Rule,
    available: int,
    wanted: int,
    score: FloatArray | None,
    generator: np.random.Generator,
) -> Indices:
    """Sorted indices `(wanted,)` of 0 … available-1: evenly spaced, random, or the highest scores.

    "importance" without a score is "uniform".
    """
    if rule == "random":
        return random_neurons(available, 1, wanted, generator)[0]
    if rule == "uniform" or score is None:
        return uniform_indices(available, wanted)
    return important_neurons(score, 1, wanted, generator, draw="top")[0]


def _channel_scores(
    source: DenseSource, statistics: Mapping[int, LayerStatistics] | None
) -> dict[str, FloatArray]:
    """Mean over blocks of each channel's root mean square, by width axis."""
    by_axis: dict[str, list[FloatArray]] = {}
    for mlp in dense_mlps(source.model):
        if statistics is not None and mlp.depth in statistics:
            axis = width_axis(source.model, mlp.path)
            by_axis.setdefault(axis, []).append(statistics[mlp.depth].channel_score())
    return {axis: np.mean(scores, axis=0) for axis, scores in by_axis.items()}


def _attention(source: DenseSource, options: RecycleOptions, channels: Indices) -> Index:
    """Rows of q, k and v, and columns of the projection.

    "heads" keeps evenly spaced heads whole (and, where heads shrink, evenly spaced channels of
    each); "released" takes the rows of the channel index in q, k and v and ignores heads, as weight
    selection and MoE Jetpack's code do.
    """
    heads, head_width = _heads(source)
    if options.qkv == "released":
        kept = channels
    else:
        arguments = narrowed_arguments(source, options)
        wanted = arguments["num_heads"]
        inside = uniform_indices(head_width, len(channels) // wanted)
        kept = (uniform_indices(heads, wanted)[:, None] * head_width + inside).ravel()
    total = heads * head_width
    return {"attention": kept, "qkv": np.concatenate([kept, kept + total, kept + 2 * total])}


def _heads(source: DenseSource) -> tuple[int, int]:
    """Attention heads of a ViT and the channels of each."""
    attention: Any = source.model.get_submodule("blocks.0.attn")
    return int(attention.num_heads), int(attention.head_dim)
