"""Spectral clustering: parts by k-means on the leading eigenvectors of the normalised graph."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from routelab.recycling.selection.layer import FloatArray, Indices


def spectral_partition(weights: FloatArray, parts: int, seed: int) -> Indices:
    """Part of each node `(n,)` of a graph with symmetric weights `(n, n)` ≥ 0.

    Rows of the `parts` leading eigenvectors of D^(-1/2) W D^(-1/2), scaled to norm 1, are clustered
    by k-means (Ng, Jordan and Weiss 2002).
    """
    from sklearn.cluster import KMeans

    edges = np.array(weights, dtype=np.float64)
    np.fill_diagonal(edges, 0.0)
    if parts == 1 or not edges.any():
        return np.arange(len(edges), dtype=np.int64) % parts
    degree = edges.sum(axis=1)
    root = 1 / np.sqrt(np.where(degree > 0, degree, 1.0))
    count = len(edges)
    _, vectors = eigh(root[:, None] * edges * root, subset_by_index=[count - parts, count - 1])
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    rows = vectors / np.where(length > 0, length, 1.0)
    found = KMeans(parts, n_init=10, random_state=seed).fit(rows)
    return np.asarray(found.labels_, dtype=np.int64)
