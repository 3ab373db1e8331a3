"""Do features fall into groups, and are these classes or experts? Never asked of a map."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.cluster import KMeans
from sklearn.metrics import silhouette_samples
from sklearn.neighbors import NearestNeighbors

from routelab.metrics.arrays import FloatArray, IntArray, classes_of, finite, ratio, same_length
from routelab.metrics.association import ami_score


def silhouette(features: ArrayLike, labels: ArrayLike, *, metric: str = "cosine") -> float:
    """Mean (b−a)/max(a,b) of features `(n, d)` under labels, from −1 to 1 (F1).

    NaN unless there are 2 to n−1 groups; an image alone in its group counts 0.
    """
    rows, groups = finite(features, name="features", ndim=2), classes_of(labels)
    same_length(rows, groups, names=("features", "labels"))
    if not 2 <= np.unique(groups).size <= len(groups) - 1:
        return float("nan")
    return float(silhouette_samples(rows, groups, metric=metric).mean())


class NeighbourPurity(NamedTuple):
    """Mean share of neighbours with the same label, its chance, and the most it could be."""

    purity: float
    chance: float
    cap: float


def neighbour_purity(
    features: ArrayLike, labels: ArrayLike, *, k: int = 10, metric: str = "cosine"
) -> NeighbourPurity:
    """Are the k nearest other images of the same class (F3)? Ties go to the lower index.

    Chance is Σ (n_c/n)(n_c−1)/(n−1); a class of n_c images caps it at (n_c−1)/k.
    """
    rows, groups = finite(features, name="features", ndim=2), classes_of(labels)
    same_length(rows, groups, names=("features", "labels"))
    n = len(groups)
    if n <= k:
        return NeighbourPurity(*(float("nan"),) * 3)
    distance, index = NearestNeighbors(n_neighbors=k + 1, metric=metric).fit(rows).kneighbors(rows)
    distance = np.where(index == np.arange(n)[:, None], np.inf, distance)
    order = np.lexsort((index, distance), axis=1)[:, :k]
    neighbours = np.take_along_axis(index, order, axis=1)
    purity = float((groups[neighbours] == groups[:, None]).mean())
    counts = np.bincount(groups)
    chance = float((counts * (counts - 1)).sum() / (n * (n - 1)))
    cap = float((counts * np.clip((counts - 1) / k, 0, 1)).sum() / n)
    return NeighbourPurity(purity, chance, cap)


def feature_clusters(
    features: ArrayLike, clusters: int, *, seed: int = 0, restarts: int = 4
) -> IntArray:
    """k-means groups `(n,)` of features `(n, d)`, the best of several starts (F2)."""
    rows = finite(features, name="features", ndim=2)
    if clusters < 1 or clusters > len(rows):
        raise ValueError(f"clusters must be from 1 to {len(rows)} images, not {clusters}")
    found = KMeans(clusters, n_init=restarts, random_state=seed).fit_predict(rows)
    return np.asarray(found, dtype=np.int64)


class ClusterAgreement(NamedTuple):
    """Adjusted mutual information of clusters with classes, and with experts; 0 by chance."""

    with_class: float
    with_expert: float


def cluster_agreement(
    clusters: ArrayLike, labels: ArrayLike, assignment: ArrayLike
) -> ClusterAgreement:
    """Do experts follow classes or some other visual grouping? Two sides of the triangle (F2)."""
    return ClusterAgreement(ami_score(labels, clusters), ami_score(assignment, clusters))


def linear_cka(first: ArrayLike, second: ArrayLike, *, debiased: bool = True) -> float:
    """Linear CKA of features `(n, d1)` and `(n, d2)` of the same images (F6).

    1 for rotated and scaled copies. The plain form is biased up when d is near n; the debiased one
    (n ≥ 4) is 0 by chance and may be negative.
    """
    x, y = finite(first, name="first", ndim=2), finite(second, name="second", ndim=2)
    same_length(x, y, names=("first", "second"))
    if debiased and len(x) < 4:
        return float("nan")
    grams = [_gram(rows, debiased=debiased) for rows in (x, y)]
    return float(_similarity(*grams, debiased=debiased))


def _gram(rows: FloatArray, *, debiased: bool) -> FloatArray:
    """Gram matrix: centred, or with an empty diagonal for the unbiased estimate."""
    if not debiased:
        rows = rows - rows.mean(axis=0)
        return rows @ rows.T
    gram = rows @ rows.T
    np.fill_diagonal(gram, 0)
    return gram


def _similarity(a: FloatArray, b: FloatArray, *, debiased: bool) -> FloatArray:
    """HSIC(a, b) / √(HSIC(a, a) HSIC(b, b))."""
    hsic = _unbiased_hsic if debiased else (lambda p, q: (p * q).sum())
    own = hsic(a, a) * hsic(b, b)
    return ratio(hsic(a, b), np.sqrt(own) if own > 0 else 0.0)


def _unbiased_hsic(a: FloatArray, b: FloatArray) -> float:
    """Song et al. 2012, eq. 5, up to a factor that cancels."""
    n = len(a)
    whole = a.sum() * b.sum() / ((n - 1) * (n - 2))
    return float((a * b).sum() + whole - 2 / (n - 2) * (a.sum(axis=0) @ b.sum(axis=0)))
