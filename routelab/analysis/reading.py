"""What of a store enters an analysis: whose images, which rows, how many at a time?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from routelab import metrics
from routelab.analysis.axes import class_count
from routelab.records import Refusal, RouterSpec
from routelab.store import CaptureStore

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class Labelled(NamedTuple):
    """Images that have a label.

    Attributes
    ----------
    images
        Their row numbers, shape (n,).
    labels
        Their classes, shape (n,), from 0 to classes - 1.
    classes
        C, with classes that have no image.
    reason
        Why nothing can be said of classes; empty where something can.
    """

    images: IntArray
    labels: IntArray
    classes: int
    reason: str


def labelled(store: CaptureStore) -> Labelled:
    """The labelled images of a store, and whether two classes stand against each other."""
    labels = np.asarray(store.labels, dtype=np.int64)
    images = np.flatnonzero(labels >= 0)
    classes = class_count(store)
    seen = np.unique(labels[images]).size
    reason = ""
    if seen == 0:
        reason = "no image has a label"
    elif seen == 1:
        reason = "all labelled images are of one class"
    elif images.size < 2 * seen and np.bincount(labels[images]).max() < 2:
        reason = "every class has a single image"
    return Labelled(images, labels[images], classes, reason)


def stratified(images: IntArray, labels: IntArray, most: int, seed: int) -> IntArray:
    """At most `most` of the images, of every class its share, in ascending order.

    Images are shuffled, put in the order of their classes, and taken at even steps.
    """
    if len(images) <= most:
        return images
    shuffled = np.random.default_rng(seed).permutation(len(images))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    steps = np.linspace(0, len(images) - 1, most).round().astype(np.int64)
    return np.sort(images[by_class[steps]])


def image_shares(store: CaptureStore, layer: str) -> FloatArray:
    """Each image's shares of mass over experts, patch tokens only, shape (n, E).

    Gates of sparse routers need not sum to 1, and float32 tables do so only nearly; an image whose
    tokens were all dropped is a NaN row.
    """
    return metrics.row_shares(store.profile(layer))


def table(store: CaptureStore, layer: str, name: str) -> FloatArray | None:
    """A per-image table in float64, or None where the layer has none of that name."""
    if name not in store.tables(layer):
        return None
    return np.asarray(store.table(layer, name), dtype=np.float64)


def table_mean(store: CaptureStore, layer: str, name: str) -> float:
    """Mean over images of a per-image table; NaN where there is none or no image has a value."""
    values = table(store, layer, name)
    if values is None or not np.isfinite(values).any():
        return float("nan")
    return float(np.nanmean(values))


def chunks(store: CaptureStore, *, limit: int | None = None) -> Iterator[slice]:
    """Slices over the images with full routing, a shard at a time, so that memory stays bounded."""
    stop = store.full if limit is None else min(limit, store.full)
    step = store.card.capture.shard
    for start in range(0, stop, step):
        yield slice(start, min(start + step, stop))


def soft_layers(store: CaptureStore, analysis: str) -> list[RouterSpec]:
    """The layers with dispatch weights.

    Raises
    ------
    Refusal
        No layer is soft.
    """
    soft = [spec for spec in store.layers if spec.soft]
    if not soft:
        kinds = ", ".join(sorted({spec.kind for spec in store.layers}))
        raise Refusal(
            f"{analysis} reads dispatch weights, which only soft layers have; the layers of "
            f"{store.path} are {kinds}, so capture a soft or sphero checkpoint for it"
        )
    return soft
