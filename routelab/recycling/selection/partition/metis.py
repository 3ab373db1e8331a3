"""METIS: parts of a weighted graph with little weight between them, seeded."""

from __future__ import annotations

import numpy as np

from routelab.recycling.selection.layer import FloatArray, Indices

HEAVIEST = 10_000
"""Integer weight of the heaviest edge; METIS takes integers from 1 up."""

CAP = 0.999
"""Quantile of the edge weights that counts as heaviest: a few rare neurons have huge lifts."""


def metis_partition(weights: FloatArray, parts: int, seed: int) -> Indices:
    """Part of each node `(n,)` of a graph with symmetric weights `(n, n)` ≥ 0; 0 is no edge.

    The edge weights are passed: without them, METIS cuts the nearly complete graphs of
    co-activation into arbitrary blocks.

    Raises
    ------
    ModuleNotFoundError
        If pymetis is not installed.
    """
    import pymetis

    edge = weights > 0
    np.fill_diagonal(edge, val=False)
    source, target = np.nonzero(edge)
    if parts == 1 or len(source) == 0:
        return np.arange(len(weights), dtype=np.int64) % parts
    starts = np.searchsorted(source, np.arange(len(weights) + 1))
    values = weights[source, target]
    scaled = np.minimum(values / np.quantile(values, CAP), 1.0) * HEAVIEST
    graph = pymetis.CSRAdjacency(adj_starts=starts.tolist(), adjacent=target.tolist())
    _, part = pymetis.part_graph(
        parts,
        adjacency=graph,
        eweights=np.maximum(np.rint(scaled), 1).astype(int).tolist(),
        options=pymetis.Options(seed=seed),
    )
    return np.asarray(part, dtype=np.int64)
