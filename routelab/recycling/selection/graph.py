"""Graph selection: neurons that act together stay together in an expert."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from routelab.recycling.selection.drawing import weighted_draws
from routelab.recycling.selection.layer import Coactivation, FloatArray, Indices, Neurons, Size
from routelab.recycling.selection.partition import Partitioner, partition

Weights = Literal["lift", "count"]

PARTS = 32
"""Parts a layer is cut into, as in MoE Jetpack's released code."""


def edge_weights(coactivation: Coactivation, *, weights: Weights = "lift") -> FloatArray:
    """Edge weights `(n, n)` of the co-activation graph, symmetric, zero on the diagonal.

    "count" is how often two neurons act together; "lift" is how much more often than independent
    neurons would, T · c_ij / (c_i c_j), where that is above 1, and no edge elsewhere.
    """
    together, alone, tokens = coactivation
    if weights == "count":
        edges = np.array(together, dtype=np.float64)
    else:
        expected = np.outer(alone, alone) / max(tokens, 1)
        lift = np.divide(together, expected, out=np.zeros_like(expected), where=expected > 0)
        edges = np.where(lift > 1, lift, 0.0)
    np.fill_diagonal(edges, 0.0)
    return edges


def parts_mass(part: Indices, together: FloatArray, parts: int) -> FloatArray:
    """Co-activation inside each part `(parts,)`: Σ over pairs of its neurons, none with itself."""
    member = np.eye(parts)[part]
    inside = np.einsum("np,np->p", together @ member, member) - np.diag(together) @ member
    return np.asarray(inside / 2, dtype=np.float64)


def graph_neurons(
    part: Indices,
    together: FloatArray,
    experts: int,
    hidden: int,
    generator: np.random.Generator,
) -> Indices:
    """Sorted indices `(experts, hidden)`: whole parts, drawn in proportion to their co-activation.

    Parts are drawn without replacement until an expert is full; of the last one, the neurons that
    act most with the rest of their part come in. MoE Jetpack (arXiv 2406.04801), section 3.1.
    """
    parts = int(part.max()) + 1
    draws = weighted_draws(parts_mass(part, together, parts), parts, experts, generator)
    rank = np.empty_like(draws)
    np.put_along_axis(rank, draws, np.arange(parts)[None], axis=1)
    within = np.where(part[:, None] == part, together, 0.0).sum(axis=1) - np.diag(together)
    strongest_first = np.argsort(-within, kind="stable")
    order = np.argsort(rank[:, part[strongest_first]], axis=1, kind="stable")
    return np.sort(strongest_first[order[:, :hidden]], axis=1)


def select_by_graph(
    neurons: Neurons,
    sizes: Sequence[Size],
    generator: np.random.Generator,
    *,
    parts: int = PARTS,
    weights: Weights = "lift",
    method: Partitioner = "metis",
) -> list[Indices]:
    """Neurons for each group of a layer; the layer's graph is cut once.

    Raises
    ------
    ValueError
        If the layer has no co-activation.
    """
    if neurons.coactivation is None:
        raise ValueError("graph selection needs the co-activation of the layer's neurons")
    edges = edge_weights(neurons.coactivation, weights=weights)
    seed = int(generator.integers(2**31 - 1))
    part = partition(edges, min(parts, neurons.available), seed, method=method)
    together = neurons.coactivation.together
    return [graph_neurons(part, together, s.experts, s.hidden, generator) for s in sizes]
