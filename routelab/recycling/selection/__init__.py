"""Which hidden neurons does each expert take? One method a file, pure functions of arrays."""

from __future__ import annotations

from functools import partial
from typing import Literal, get_args

from routelab.recycling.selection.graph import (
    PARTS,
    Weights,
    edge_weights,
    graph_neurons,
    parts_mass,
    select_by_graph,
)
from routelab.recycling.selection.importance import Draw, important_neurons, select_important
from routelab.recycling.selection.layer import Coactivation, Neurons, Select, Size, check_sizes
from routelab.recycling.selection.partition import (
    FALLBACK,
    Partitioner,
    available_method,
    partition,
)
from routelab.recycling.selection.random import random_neurons, select_random
from routelab.recycling.selection.uniform import select_uniform, uniform_indices

Method = Literal["random", "uniform", "importance", "graph", "copy"]

METHODS: tuple[str, ...] = get_args(Method)


def selector(
    method: Method,
    *,
    draw: Draw = "sample",
    parts: int = PARTS,
    weights: Weights = "lift",
    partitioner: Partitioner = "metis",
) -> Select:
    """What selects the neurons of a layer by this method.

    "copy" is sparse upcycling: an expert of full size takes every neuron, a smaller one evenly
    spaced ones, so that it is one function with "uniform".
    """
    selectors: dict[str, Select] = {
        "random": select_random,
        "uniform": select_uniform,
        "copy": select_uniform,
        "importance": partial(select_important, draw=draw),
        "graph": partial(select_by_graph, parts=parts, weights=weights, method=partitioner),
    }
    return selectors[method]


__all__ = [
    "FALLBACK",
    "METHODS",
    "PARTS",
    "Coactivation",
    "Draw",
    "Method",
    "Neurons",
    "Partitioner",
    "Select",
    "Size",
    "Weights",
    "available_method",
    "check_sizes",
    "edge_weights",
    "graph_neurons",
    "important_neurons",
    "partition",
    "parts_mass",
    "random_neurons",
    "select_by_graph",
    "selector",
    "uniform_indices",
]
