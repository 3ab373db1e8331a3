"""How is a data set of torchvision or timm that is already on disk read? By name, never downloaded.

`torchvision:CIFAR10?root=/data/cifar` takes a class of `torchvision.datasets`;
`timm:torch/cifar10?root=/data/cifar` takes a name of `timm.data.create_dataset`.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from routelab.data.images import Images, make_images
from routelab.records import Refusal, Transform

FAMILIES = ("torchvision", "timm")


def is_named(source: str) -> bool:
    """True for "torchvision:…" and "timm:…"."""
    return source.split(":", 1)[0] in FAMILIES and ":" in source


def named_data(source: str, transform: Transform, *, split: str = "") -> Images:
    """A torchvision or timm data set of images and labels; `split` defaults to "test".

    Raises
    ------
    Refusal
        Unknown name, or nothing at its root: RouteLab downloads nothing.
    """
    family, _, rest = source.partition(":")
    name, _, query = rest.partition("?")
    options = dict(parse_qsl(query))
    split = split or "test"
    try:
        data = (_torchvision if family == "torchvision" else _timm)(name, split, options)
        labels = _labels(data)
    except Refusal:
        raise
    except (RuntimeError, ValueError, TypeError, OSError, AssertionError) as error:
        raise Refusal(
            f"data set {source} with split {split!r} cannot be opened ({error}); "
            "give the root it was saved in, as in torchvision:CIFAR10?root=FOLDER"
        ) from error
    ids = [f"{name}/{split}/{index:06d}" for index in range(len(labels))]
    return make_images(
        source, split, ids, labels, _classes(data, labels), transform, lambda i: _image(data[i][0])
    )


def _torchvision(name: str, split: str, options: dict[str, str]) -> Any:
    """A data set of torchvision by its class name; says `train=` or `split=` as the class wants."""
    import torchvision

    if name not in torchvision.datasets.__all__:
        near = difflib.get_close_matches(name, torchvision.datasets.__all__, n=3, cutoff=0.4)
        hint = f"; the nearest are {', '.join(near)}" if near else ""
        raise Refusal(f"torchvision has no data set {name!r}{hint}")
    kind = getattr(torchvision.datasets, name)
    known = inspect.signature(kind).parameters
    chosen: dict[str, Any] = dict(options)
    if "train" in known:
        chosen["train"] = split == "train"
    elif "split" in known:
        chosen["split"] = split
    if "download" in known:
        chosen["download"] = False
    return kind(**chosen)


def _timm(name: str, split: str, options: dict[str, str]) -> Any:
    """A map-style data set of timm."""
    from timm.data.dataset_factory import create_dataset

    chosen: dict[str, Any] = {**options, "split": split, "download": False}
    return create_dataset(name, **chosen)


def _labels(data: Any) -> NDArray[np.int64]:
    """Labels without decoding where the data set keeps them; by reading each image otherwise."""
    for name in ("targets", "labels", "_labels"):
        if hasattr(data, name):
            return np.asarray(getattr(data, name), dtype=np.int64)
    samples = getattr(getattr(data, "reader", data), "samples", None)
    if samples is not None:
        return np.asarray([label for _, label in samples], dtype=np.int64)
    return np.asarray([data[i][1] for i in range(len(data))], dtype=np.int64)


def _classes(data: Any, labels: NDArray[np.int64]) -> Sequence[str]:
    """Names where the data set has them, numbers otherwise."""
    names = getattr(data, "classes", None)
    if names is None:
        index = getattr(getattr(data, "reader", None), "class_to_idx", None) or {}
        names = sorted(index, key=lambda name: index[name])
    return [str(name) for name in names] or [str(i) for i in range(int(labels.max()) + 1)]


def _image(item: Any) -> Image.Image:
    if not isinstance(item, Image.Image):
        raise TypeError(f"items are {type(item).__name__}, not images")
    return item
