"""Do the features that a layer reads group by class, and do they group by routing?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from routelab.figures import embedding_scatter, layer_curve
from routelab.records import Quantity, Result
from routelab.report.content import Block, Material, Picture, Section, Words, parameters
from routelab.report.reading import caption, cell, curves, find, layer_table, layers_of
from routelab.report.selection import spread

CURVES = {
    "Silhouette": {"silhouette_class": "by class", "silhouette_expert": "by expert"},
    "kNN purity": {"knn_purity": "by class"},
    "AMI of k-means clusters": {
        "kmeans_ami_class": "with class",
        "kmeans_ami_expert": "with expert",
    },
}
METHODS = {"pca": "PCA", "tsne": "t-SNE", "umap": "UMAP"}
MOST_LAYERS = 3
HOVER_AT_MOST = 5_000


def section(material: Material) -> Section | None:
    """Scores in the original space, then maps of a few layers."""
    result = material.results.get("clusters")
    if result is None:
        return None
    blocks: list[Block] = [Words(result.summary)] if result.summary else []
    for title, names in CURVES.items():
        lines = curves(result, names)
        if lines:
            figure = layer_curve(
                lines,
                layers=layers_of(result),
                unit=title,
                title=f"{title} of features",
                caption=caption(result, *(find(result, name, "layer") for name in names)),
            )
            blocks.append(Picture(figure))
    columns = {
        name: f"{title}, {label}"
        for title, names in CURVES.items()
        for name, label in names.items()
    }
    table = layer_table(result, columns, "Clustering by layer")
    blocks += [table] if table else []
    blocks += _maps(material, result)
    return Section(
        "Feature clusters",
        [*blocks, parameters(result)],
        "A map is a sketch; the number beside it is from the original space.",
    )


def _maps(material: Material, result: Result) -> list[Block]:
    """By class for a few layers; by expert and by correctness for the last of them."""
    coordinates = find(result, "coordinates", "layer", "method", "image", "axis")
    if coordinates is None:
        return []
    layers = layers_of(result)
    methods = result.axis("method", coordinates.value.shape[1])
    images = _images(result, coordinates)
    few = len(images) <= HOVER_AT_MOST
    hover = [str(material.store.ids[image]) for image in images] if few else []
    blocks: list[Block] = []
    for place in spread(len(layers), MOST_LAYERS):
        colourings = [_by_class(material, images)]
        if place == len(layers) - 1:
            colourings += [
                _by_expert(material, layers[place], images),
                _by_outcome(material, images),
            ]
        drawn = [
            (METHODS.get(method, method), points)
            for method, points in zip(methods, coordinates.value[place], strict=True)
            if np.isfinite(points).any()
        ]
        for group, names, how in colourings:
            blocks += [
                _map(
                    result,
                    points,
                    (group, names),
                    f"{method} of layer {layers[place]}, by {how}",
                    place,
                    hover,
                )
                for method, points in drawn
            ]
    return blocks


def _images(result: Result, coordinates: Quantity) -> NDArray[np.int64]:
    """Rows of the store that the points are."""
    names = result.coords.get("image")
    count = coordinates.value.shape[2]
    if names is None or not all(name.isdigit() for name in names):
        return np.arange(count)
    return np.array([int(name) for name in names])


Colouring = tuple[NDArray[np.int64], list[str], str]


def _by_class(material: Material, images: NDArray[np.int64]) -> Colouring:
    return material.store.labels[images], material.classes, "class"


def _by_expert(material: Material, layer: str, images: NDArray[np.int64]) -> Colouring:
    profile = np.asarray(material.store.profile(layer))[images]
    routed = np.isfinite(profile).all(axis=1) & (profile > 0).any(axis=1)
    top = np.where(routed, np.nan_to_num(profile).argmax(axis=1), -1)
    experts = material.store.spec(layer).experts
    return top, [f"expert {expert}" for expert in range(experts)], "top expert of the image"


def _by_outcome(material: Material, images: NDArray[np.int64]) -> Colouring:
    labels, predictions = material.store.labels[images], material.store.predictions[images]
    outcome = np.where((labels < 0) | (predictions < 0), -1, (labels != predictions).astype(int))
    return outcome, ["right", "wrong"], "outcome"


def _map(
    result: Result,
    points: NDArray[np.float64],
    coloured: tuple[NDArray[np.int64], list[str]],
    title: str,
    place: int,
    hover: list[str],
) -> Picture:
    scores = {
        label: quantity
        for name, label in (("silhouette_class", "class silhouette"), ("knn_purity", "kNN purity"))
        if (quantity := find(result, name, "layer")) is not None
    }
    score = "; ".join(f"{label} {cell(value, place)}" for label, value in scores.items())
    group, names = coloured
    return Picture(
        embedding_scatter(
            points,
            group=group,
            names=names,
            score=score.replace("\n", ", "),
            title=title,
            caption=caption(result, chance="beside each number" if scores else ""),
            hover=hover,
        )
    )
