"""How does routing settle while a model learns? The same images, looked at every few epochs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from routelab.data import Images, InMemory
from routelab.models import MoELayer, Routing, SoftWeights
from routelab.training.gauges import keyed_layers, mass_of
from routelab.training.safely import write_whole

Arrays = dict[str, NDArray[Any]]


def probe_order(images: int, probe: int) -> NDArray[np.int64]:
    """The images that every snapshot of every run looks at: drawn once, in order."""
    chosen = np.random.default_rng(0).permutation(images)[:probe]
    return np.sort(chosen)


@torch.no_grad()
def take_snapshot(
    model: nn.Module,
    data: Images | InMemory,
    order: NDArray[np.int64],
    previous: Arrays | None,
    *,
    device: torch.device,
    batch_size: int = 64,
) -> Arrays:
    """Totals of every layer over the probe images; the model's mode is kept.

    Returns
    -------
    Arrays
        `labels (n,)`, and for each layer `KEY/load (E,)`: share of tokens whose first choice it is;
        `KEY/class_mass (C, E)` and `class_count (C,)`: sums of image profiles by class;
        `KEY/first (n, N)`: first choice of each token; `KEY/agreement ()`: share of tokens whose
        first choice is that of the previous snapshot, NaN for the first one.
    """
    layers = keyed_layers(model)
    training = model.training
    model.eval()
    parts: dict[str, list[NDArray[Any]]] = {}
    with _noting(layers, parts):
        for batch in data.batches(batch_size, order=order):
            model(batch.pixels.to(device))
    model.train(training)
    labels = data.labels[order]
    classes = len(data.classes)
    arrays: Arrays = {"labels": labels, "class_count": np.bincount(labels, minlength=classes)}
    for key, layer in layers.items():
        first = np.concatenate(parts[f"{key}/first"])
        profile = np.concatenate(parts[f"{key}/profile"])
        arrays |= _layer_arrays(key, layer.spec.experts, first, profile, labels, classes, previous)
    return arrays


def _layer_arrays(
    key: str,
    experts: int,
    first: NDArray[Any],
    profile: NDArray[Any],
    labels: NDArray[np.int64],
    classes: int,
    previous: Arrays | None,
) -> Arrays:
    mass = np.zeros((classes, experts))
    np.add.at(mass, labels, profile)
    before = None if previous is None else previous.get(f"{key}/first")
    same = np.nan if before is None or before.shape != first.shape else (before == first).mean()
    load = np.bincount(first.ravel(), minlength=experts) / first.size
    return {
        f"{key}/load": load,
        f"{key}/class_mass": mass,
        f"{key}/first": first.astype(np.uint8 if experts <= 256 else np.uint16),
        f"{key}/agreement": np.asarray(same),
    }


@contextmanager
def _noting(layers: dict[str, MoELayer], parts: dict[str, list[NDArray[Any]]]) -> Iterator[None]:
    """While open, each router's first choices and image profiles are added to the parts."""

    def hook_of(key: str, layer: MoELayer) -> Any:
        def hook(router: nn.Module, inputs: Any, routing: Routing) -> None:
            mass = _mass(layer, routing)
            parts.setdefault(f"{key}/first", []).append(mass.argmax(dim=2).cpu().numpy())
            parts.setdefault(f"{key}/profile", []).append(mass.mean(dim=1).cpu().double().numpy())

        return hook

    handles = [
        layer.router.register_forward_hook(hook_of(key, layer)) for key, layer in layers.items()
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _mass(layer: MoELayer, routing: Routing) -> Tensor:
    """Token→expert mass `(B, N, E)`; a dropped choice has none."""
    if isinstance(routing, SoftWeights):
        return mass_of(layer, routing)
    gate = torch.where(routing.slot >= 0, routing.gate, torch.zeros_like(routing.gate))
    return torch.zeros_like(routing.probs).scatter_add_(2, routing.expert, gate)


def write_snapshot(path: Path, arrays: Arrays) -> None:
    """Write a snapshot whole."""
    write_whole(path, lambda file: np.savez_compressed(file, **arrays))  # type: ignore[arg-type]


def read_snapshot(path: Path) -> Arrays:
    """Read a snapshot; nothing in it is code."""
    with np.load(path, allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}
