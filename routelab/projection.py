"""Where would a map of features put an image? PCA, t-SNE and UMAP: pictures, never measurements."""

from __future__ import annotations

import warnings
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE
from sklearn.manifold import trustworthiness as sklearn_trustworthiness

from routelab.records import Refusal

FloatArray = NDArray[np.float64]
Method = Literal["pca", "tsne", "umap"]
METHODS: tuple[Method, ...] = ("pca", "tsne", "umap")
COMPONENTS_FIRST = 50
"""t-SNE and UMAP see so many principal components, as is usual."""


def project(
    features: ArrayLike, *, method: Method = "pca", neighbours: int = 15, seed: int = 0
) -> FloatArray:
    """Two coordinates `(n, 2)` of features `(n, d)`; the same seed gives the same map.

    Distances between groups on a t-SNE or UMAP map mean nothing: print a number of the original
    space beside it (`metrics.silhouette`, `metrics.neighbour_purity`), and `trustworthiness`.

    Parameters
    ----------
    features
        One row an image, finite.
    method
        `pca`, `tsne` or `umap`.
    neighbours
        Size of a neighbourhood: UMAP's neighbours, t-SNE's perplexity; at most a third of n.
    seed
        Of t-SNE and UMAP.

    Raises
    ------
    Refusal
        Fewer than 4 images, an unknown method, or UMAP where it is not installed.
    """
    rows = np.asarray(features, dtype=np.float64)
    if rows.ndim != 2 or not np.isfinite(rows).all():
        raise Refusal("features to project must be rows of finite numbers; leave other rows out")
    if len(rows) < 4:
        raise Refusal(f"a map needs at least 4 images, not {len(rows)}; capture more")
    if method not in METHODS:
        raise Refusal(f"there is no projection {method!r}; take one of {', '.join(METHODS)}")
    if method == "pca" or _constant(rows):  # t-SNE of images that coincide ends the process
        return principal_components(rows, 2)
    reduced = principal_components(rows, COMPONENTS_FIRST)
    near = max(2, min(neighbours, (len(rows) - 1) // 3))
    return _tsne(reduced, near, seed) if method == "tsne" else _umap(reduced, near, seed)


def principal_components(features: FloatArray, count: int) -> FloatArray:
    """The first principal components, at most `count` and at least 2 columns (zeros if need be).

    Features that are the same for all images are all zeros.
    """
    kept = min(count, *features.shape)
    found = np.zeros((len(features), max(kept, 2)))
    if _constant(features):
        return found
    found[:, :kept] = PCA(kept, svd_solver="full").fit_transform(features)
    return found


def trustworthiness(features: ArrayLike, coordinates: ArrayLike, *, neighbours: int = 5) -> float:
    """How far neighbours on the map are neighbours in the features: 1 all; NaN for small n."""
    rows, places = np.asarray(features), np.asarray(coordinates)
    if len(rows) != len(places) or not (np.isfinite(rows).all() and np.isfinite(places).all()):
        raise Refusal("features and coordinates must be finite numbers of the same images")
    if neighbours >= len(rows) / 2:
        return float("nan")
    return float(sklearn_trustworthiness(rows, places, n_neighbors=neighbours))


def _constant(rows: FloatArray) -> bool:
    """Whether all images have the same features."""
    return bool((rows == rows[:1]).all())


def _tsne(rows: FloatArray, neighbours: int, seed: int) -> FloatArray:
    found = TSNE(2, perplexity=neighbours, init="pca", random_state=seed).fit_transform(rows)
    return np.asarray(found, dtype=np.float64)


def _umap(rows: FloatArray, neighbours: int, seed: int) -> FloatArray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # umap warns of libraries that it does not need here
        try:
            from umap import UMAP
        except ImportError as error:
            raise Refusal(
                "UMAP is not installed; pip install 'routelab[projection]', or take pca or tsne"
            ) from error
        found = UMAP(n_neighbors=neighbours, random_state=seed, n_jobs=1).fit_transform(rows)
    return np.asarray(found, dtype=np.float64)
