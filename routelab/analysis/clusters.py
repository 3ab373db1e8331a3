"""Do the features that a layer reads group by class, and do they group by routing?"""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from routelab import metrics, projection
from routelab.analysis.axes import layer_names
from routelab.analysis.construction import argmax_warnings
from routelab.analysis.findings import Findings, Kind
from routelab.analysis.question import asks
from routelab.analysis.reading import Labelled, image_shares, labelled, stratified
from routelab.records import Quantity, Refusal, Result, RouterSpec
from routelab.store import CaptureStore

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

KINDS = {
    "silhouette_class": Kind("cosine silhouette of the features by class, in their own space"),
    "silhouette_expert": Kind("cosine silhouette of the features by the image's top expert"),
    "knn_purity": Kind("nearest neighbours of the same class, share"),
    "kmeans_ami_class": Kind("AMI of k-means clusters and class; 0 by chance"),
    "kmeans_ami_expert": Kind("AMI of k-means clusters and top expert; 0 by chance"),
}


@asks("Do features group by class, and by routing?", level="profiles")
def run(
    store: CaptureStore,
    *,
    seed: int = 0,
    permutations: int = 999,
    most_images: int = 1000,
    neighbours: int = 10,
    components: int = 50,
    maps: tuple[str, ...] | None = None,
) -> Result:
    """Clustering of the mean patch token that enters each layer (catalogue F1–F3, F7).

    Scores are read from the features (their first principal components), never from a map.

    Parameters
    ----------
    seed
        Of the sample of images, of k-means and of the maps.
    permutations
        Shuffles of labels for the mean silhouette by chance, at most 20: it hardly varies.
    most_images
        Images that are read, drawn within class where there are more.
    neighbours
        k of the neighbour purity.
    components
        Principal components that scores and maps start from.
    maps
        Keys of the layers that get a t-SNE and a UMAP map; None is the last one.

    Raises
    ------
    Refusal
        The store holds no pooled features.
    """
    featured = [spec for spec in store.layers if "pooled" in store.tables(spec.key)]
    if not featured:
        raise Refusal(
            f"clusters read pooled features, and {store.path} holds none; capture it again with "
            "--features pooled"
        )
    known = labelled(store)
    rows = known.images if len(known.images) else np.arange(store.committed)
    strata = known.labels if len(known.images) else np.zeros(len(rows), dtype=np.int64)
    images = stratified(rows, strata, most_images, seed)
    labels = np.asarray(store.labels, dtype=np.int64)[images]
    mapped = (featured[-1].key,) if maps is None else maps
    found, coordinates = Findings(layer_names(store), KINDS), {}
    for spec in featured:
        features = np.asarray(store.table(spec.key, "pooled"), dtype=np.float64)[images]
        reduced = projection.principal_components(features, components)
        top = image_shares(store, spec.key)[images]
        _note_class_scores(
            found, spec, reduced, labels, known, min(permutations, 20), seed, neighbours
        )
        _note_expert_scores(found, spec, reduced, labels, top, known, seed)
        coordinates[spec.key] = _maps(reduced, spec.key in mapped, seed)
    return Result(
        name="clusters",
        quantities={**found.quantities(), "coordinates": _coordinates(store, coordinates)},
        coords={
            "layer": layer_names(store),
            "method": list(projection.METHODS),
            "image": [str(image) for image in images],
            "axis": ["x", "y"],
        },
        n=len(images),
        summary=_summary(found, store, known),
        warnings=tuple(_warnings(store, known, images)),
    )


def _note_class_scores(
    found: Findings,
    spec: RouterSpec,
    features: FloatArray,
    labels: IntArray,
    known: Labelled,
    draws: int,
    seed: int,
    neighbours: int,
) -> None:
    """Silhouette and neighbours by class, beside what shuffled labels give."""
    if known.reason:
        for name in ("silhouette_class", "knn_purity"):
            found.note(spec.key, name, np.nan, reason=known.reason)
        return
    value = metrics.silhouette(features, labels)
    null = [
        metrics.silhouette(features, drawn) for drawn in metrics.shuffles(labels, draws, seed=seed)
    ]
    found.note(spec.key, "silhouette_class", value, chance=np.mean(null) if null else np.nan)
    near = metrics.neighbour_purity(features, labels, k=neighbours)
    reason = "" if np.isfinite(near.purity) else f"fewer than {neighbours + 2} images"
    found.note(spec.key, "knn_purity", near.purity, chance=near.chance, reason=reason)


def _note_expert_scores(
    found: Findings,
    spec: RouterSpec,
    features: FloatArray,
    labels: IntArray,
    profile: FloatArray,
    known: Labelled,
    seed: int,
) -> None:
    """Do groups of features, found without labels, follow classes, and do they follow experts?"""
    routed = np.isfinite(profile).all(axis=1)
    top = np.where(routed, np.nan_to_num(profile).argmax(axis=1), 0)
    value = metrics.silhouette(features[routed], top[routed]) if routed.any() else np.nan
    reason = "" if np.isfinite(value) else "one expert is the top of all images"
    found.note(spec.key, "silhouette_expert", value, chance=0, reason=reason)
    groups = min(max(known.classes, 2), len(features))
    if len(features) < 4:
        for name in ("kmeans_ami_class", "kmeans_ami_expert"):
            found.note(spec.key, name, np.nan, reason="fewer than four images")
        return
    clusters = metrics.feature_clusters(features, groups, seed=seed)
    by_class = np.nan if known.reason else metrics.ami_score(labels, clusters)
    found.note(spec.key, "kmeans_ami_class", by_class, chance=0, reason=known.reason)
    by_expert = metrics.ami_score(top[routed], clusters[routed]) if routed.any() else np.nan
    reason = "" if np.isfinite(by_expert) else "one expert is the top of all images"
    found.note(spec.key, "kmeans_ami_expert", by_expert, chance=0, reason=reason)


def _maps(features: FloatArray, every: bool, seed: int) -> FloatArray:
    """Coordinates (methods, n, 2); t-SNE and UMAP are NaN where they were not asked for."""
    maps = np.full((len(projection.METHODS), len(features), 2), np.nan)
    for place, method in enumerate(projection.METHODS):
        if len(features) >= 4 and (method == "pca" or (every and _available(method))):
            maps[place] = projection.project(features, method=method, seed=seed)
    return maps


def _available(method: str) -> bool:
    """Whether the library behind a method is installed."""
    return method != "umap" or find_spec("umap") is not None


def _coordinates(store: CaptureStore, maps: dict[str, FloatArray]) -> Quantity:
    """Maps of all layers, NaN for a layer without features."""
    empty = np.full_like(next(iter(maps.values())), np.nan)
    return Quantity(
        value=np.stack([maps.get(name, empty) for name in layer_names(store)]),
        dims=("layer", "method", "image", "axis"),
        meaning="a map to look at; distances between groups on t-SNE and UMAP mean nothing",
        reason="t-SNE and UMAP are drawn for the chosen layers only",
    )


def _warnings(store: CaptureStore, known: Labelled, images: IntArray) -> list[str]:
    warned = list(argmax_warnings(store))
    if not _available("umap"):
        warned.append(
            "UMAP is not installed, so its map is missing: pip install routelab[projection]."
        )
    if len(images) < len(known.images):
        warned.append(f"Features are read of {len(images):,} of {len(known.images):,} images.")
    return warned


def _summary(found: Findings, store: CaptureStore, known: Labelled) -> str:
    if known.reason:
        return f"Clustering by class is undefined: {known.reason}."
    purity, quantities = found.value("knn_purity"), found.quantities()
    if not np.isfinite(purity).any():
        return "Clustering by class is undefined: too few images."
    best = int(np.nanargmax(purity))
    chance = quantities["knn_purity"].chance
    even = np.nan if chance is None else chance[best]
    by_class, by_expert = found.value("kmeans_ami_class"), found.value("kmeans_ami_expert")
    return (
        f"Features group by class most in layer {store.layers[best].key}: {purity[best]:.1%} of "
        f"nearest neighbours share the class (chance {even:.1%}); "
        f"k-means groups agree with class at AMI {by_class[best]:.3f} and with the top expert at "
        f"{by_expert[best]:.3f} (chance 0)."
    )
