"""Louvain: communities by modularity, merged until there are as few as wanted."""

from __future__ import annotations

import numpy as np

from routelab.recycling.selection.layer import FloatArray, Indices

NEIGHBOURS = 64
"""Strongest edges of each node that are kept: networkx walks edges one by one in Python."""


def louvain_partition(weights: FloatArray, parts: int, seed: int) -> Indices:
    """Part of each node `(n,)` of a graph with symmetric weights `(n, n)` ≥ 0; at most `parts`.

    The smallest community joins the one that it is most strongly tied to, until few enough are
    left; where Louvain finds fewer than `parts`, the balancing that follows fills the rest.
    """
    import networkx

    kept = _strongest(weights)
    graph = networkx.from_numpy_array(kept)
    found = networkx.community.louvain_communities(graph, weight="weight", seed=seed)
    part = np.empty(len(weights), dtype=np.int64)
    for number, nodes in enumerate(sorted(found, key=min)):
        part[list(nodes)] = number
    return _merged(part, weights, parts)


def _strongest(weights: FloatArray) -> FloatArray:
    """The graph with the strongest edges of each node, symmetric, without loops."""
    edges = np.array(weights, dtype=np.float64)
    np.fill_diagonal(edges, 0.0)
    if len(edges) <= NEIGHBOURS:
        return edges
    limit = np.partition(edges, -NEIGHBOURS, axis=1)[:, -NEIGHBOURS]
    strong = edges >= limit[:, None]
    return np.where(strong | strong.T, edges, 0.0)


def _merged(part: Indices, weights: FloatArray, parts: int) -> Indices:
    """Communities `(n,)` numbered 0 … , at most `parts` of them."""
    while part.max() + 1 > parts:
        member = np.eye(int(part.max()) + 1)[part]
        smallest = int(member.sum(axis=0).argmin())
        ties = (member.T @ weights @ member)[smallest] / member.sum(axis=0)
        ties[smallest] = -1.0
        part = np.where(part == smallest, int(ties.argmax()), part)
        part = np.unique(part, return_inverse=True)[1].astype(np.int64)
    return part
