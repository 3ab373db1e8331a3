"""Do features fall into groups, and are these classes or experts? Never asked of a map."""

from __future__ import annotations

import warnings
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import silhouette_samples

from routelab.metrics.arrays import FloatArray, IntArray, classes_of, finite, same_length
from routelab.metrics.association import ami_score
from routelab.metrics.redundancy import zero_vectors

Metric = Literal["cosine", "euclidean"]
CELLS_AT_ONCE = 4_000_000
"""Distances held at a time; all of n images are n² numbers."""


def silhouette(features: ArrayLike, labels: ArrayLike, *, metric: Metric = "cosine") -> float:
    """Mean (b−a)/max(a,b) of features `(n, d)` under labels, from −1 to 1 (F1).

    NaN unless there are 2 to n−1 groups; an image alone in its group counts 0. A zero vector has no
    cosine and is left out (`zero_vectors` counts them).
    """
    rows, groups, _ = _comparable(features, labels, metric)
    if not 2 <= np.unique(groups).size <= len(groups) - 1:
        return float("nan")
    return float(silhouette_samples(rows, groups, metric=metric).mean())


class NeighbourPurity(NamedTuple):
    """Mean share of neighbours with the same label, its chance, and the most it could be.

    `excluded` images had a zero vector, which has no cosine.
    """

    purity: float
    chance: float
    cap: float
    excluded: int


def neighbour_purity(
    features: ArrayLike, labels: ArrayLike, *, k: int = 10, metric: Metric = "cosine"
) -> NeighbourPurity:
    """Are the k nearest other images of the same class (F3)? Ties go to the lower index.

    Chance is Σ (n_c/n)(n_c−1)/(n−1); a class of n_c images caps it at (n_c−1)/k. NaN for fewer than
    k+1 images.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1 neighbour, not {k}")
    rows, groups, excluded = _comparable(features, labels, metric)
    n = len(groups)
    if n <= k:
        return NeighbourPurity(*(float("nan"),) * 3, excluded)
    step = max(1, CELLS_AT_ONCE // n)
    hits = sum(
        _same_neighbours(rows, groups, start, step, k, metric) for start in range(0, n, step)
    )
    counts = np.bincount(groups)
    chance = float((counts * (counts - 1)).sum() / (n * (n - 1)))
    cap = float((counts * np.clip((counts - 1) / k, 0, 1)).sum() / n)
    return NeighbourPurity(hits / (n * k), chance, cap, excluded)


def _same_neighbours(
    rows: FloatArray, groups: IntArray, start: int, step: int, k: int, metric: Metric
) -> int:
    """Neighbours of the same group, summed over images from `start` on."""
    distance = _distances(rows[start : start + step], rows, metric)
    own = np.arange(len(distance))
    distance[own, start + own] = np.inf
    farthest = np.partition(distance, k - 1, axis=1)[:, k - 1 : k]
    closer, tied = distance < farthest, distance == farthest
    wanted = k - closer.sum(axis=1, keepdims=True)
    near = closer | (tied & (tied.cumsum(axis=1) <= wanted))
    return int((near & (groups[start + own, None] == groups)).sum())


def _distances(some: FloatArray, every: FloatArray, metric: Metric) -> FloatArray:
    """Distances in which copies are tied: cosines by one product, to what rounding leaves of it."""
    if metric == "euclidean":
        return np.asarray(cdist(some, every, metric))
    first, second = (part / np.linalg.norm(part, axis=1, keepdims=True) for part in (some, every))
    return np.round(1 - first @ second.T, 12)


def _comparable(
    features: ArrayLike, labels: ArrayLike, metric: Metric
) -> tuple[FloatArray, IntArray, int]:
    """Features and labels of images that have a distance, and how many have none."""
    rows, groups = finite(features, name="features", ndim=2), classes_of(labels)
    same_length(rows, groups, names=("features", "labels"))
    if metric not in ("cosine", "euclidean"):
        raise ValueError(f"metric must be cosine or euclidean, not {metric!r}")
    if metric == "euclidean":
        return rows, groups, 0
    zero = zero_vectors(rows)
    return rows[~zero], groups[~zero], int(zero.sum())


def feature_clusters(
    features: ArrayLike, clusters: int, *, seed: int = 0, restarts: int = 4
) -> IntArray:
    """k-means groups `(n,)` of features `(n, d)`, the best of several starts (F2).

    Fewer groups than asked for where fewer images differ.
    """
    rows = finite(features, name="features", ndim=2)
    if clusters < 1 or clusters > len(rows):
        raise ValueError(f"clusters must be from 1 to {len(rows)} images, not {clusters}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it says that images coincide
        found = KMeans(clusters, n_init=restarts, random_state=seed).fit_predict(rows)
    return np.asarray(found, dtype=np.int64)


class ClusterAgreement(NamedTuple):
    """Adjusted mutual information of clusters with classes, with experts, and of these two.

    0 by chance, 1 for the same groups; NaN where one group holds all images.
    """

    with_class: float
    with_expert: float
    class_with_expert: float


def cluster_agreement(
    clusters: ArrayLike, labels: ArrayLike, assignment: ArrayLike
) -> ClusterAgreement:
    """Do experts follow classes or some other visual grouping? The triangle's sides (F2)."""
    return ClusterAgreement(
        ami_score(labels, clusters), ami_score(assignment, clusters), ami_score(labels, assignment)
    )
