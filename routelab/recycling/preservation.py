"""How much of the dense model's function is left in the recycled one, before any training?

A bad start is seen here, before a night is spent on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from routelab.data import Images
from routelab.metrics import linear_cka
from routelab.models import lineage_arrays, mlp_blocks, moe_layers
from routelab.recycling.anatomy import width_axis
from routelab.recycling.blocks import is_convnext
from routelab.recycling.sources import DenseSource

FloatTable = NDArray[np.float32]

TOKENS = 16
"""Tokens of each image whose features CKA compares, evenly spaced over them."""


class LayerPreservation(NamedTuple):
    """One block of the recycled model against the same block of the dense one.

    `cka` is the debiased linear CKA of their outputs, and `error` ‖y - ŷ‖ / ‖y‖ of them: both carry
    what went wrong below. `alone` is the error of the MoE layer's output when it is given the dense
    model's own input, NaN for a dense block.
    """

    layer: str
    moe: bool
    cka: float
    error: float
    alone: float


class _Sums:
    """Squared norms of a reference and of the distance from it."""

    def __init__(self) -> None:
        self.reference, self.distance = 0.0, 0.0

    def add(self, reference: Tensor, other: Tensor) -> None:
        self.reference += float(reference.double().square().sum())
        self.distance += float((reference.double() - other.double()).square().sum())

    @property
    def relative(self) -> float:
        """The relative error; NaN where there is nothing to compare with."""
        return (self.distance / self.reference) ** 0.5 if self.reference > 0 else float("nan")


@torch.inference_mode()
def function_preservation(
    dense: DenseSource, model: nn.Module, images: Images, *, batch_size: int = 32
) -> list[LayerPreservation]:
    """Compare a recycled model with the dense body that it was made of, block by block.

    A narrower model is compared on the channels that it kept. Both run in evaluation mode.

    Parameters
    ----------
    dense
        The body's source.
    model
        Recycled from it, with its lineage.
    images
        All of them are shown; memory holds 16 tokens of each and block.
    batch_size
        Images a forward pass.
    """
    names, kept = list(mlp_blocks(dense.model)), lineage_arrays(model)
    channels = {name: _channels(dense.model, name, kept) for name in names}
    layers = {name.removesuffix(".mlp") for name in moe_layers(model)}
    compared = {name: _Compared() for name in names}
    dense.model.eval()
    model.eval()
    for batch in images.batches(batch_size):
        with _watched(dense.model, names) as wanted, _watched(model, names) as found:
            dense.model(batch.pixels)
            model(batch.pixels)
        for name in names:
            compared[name].add_outputs(
                _rows(wanted[name].output, channels[name]),
                _rows(found[name].output, None),
                len(batch.images),
            )
            if name in layers:
                given = _selected(wanted[name].mlp_input, channels[name])
                answer = model.get_submodule(f"{name}.mlp")(given)
                reference = _rows(wanted[name].mlp_output, channels[name])
                compared[name].alone.add(reference, _rows(answer, None))
    return [
        compared[name].result(f"{depth:02d}", moe=name in layers)
        for depth, name in enumerate(names)
    ]


class _Compared:
    """One block: features of some tokens of both models, and sums of errors."""

    def __init__(self) -> None:
        self.features: tuple[list[FloatTable], list[FloatTable]] = ([], [])
        self.whole, self.alone = _Sums(), _Sums()

    def add_outputs(self, reference: Tensor, other: Tensor, images: int) -> None:
        """Add output rows `(B·N, d)` of both models."""
        self.whole.add(reference, other)
        for side, rows in zip(self.features, (reference, other), strict=True):
            side.append(_spaced(rows, images))

    def result(self, layer: str, *, moe: bool) -> LayerPreservation:
        """The three numbers of the block."""
        cka = linear_cka(*(np.concatenate(side) for side in self.features))
        return LayerPreservation(layer, moe, cka, self.whole.relative, self.alone.relative)


class _Seen:
    """What passed one block: its output, and its MLP's input and output."""

    output: Tensor
    mlp_input: Tensor
    mlp_output: Tensor


@contextmanager
def _watched(model: nn.Module, names: list[str]) -> Iterator[dict[str, _Seen]]:
    """What passes the blocks of these names while the context is open."""
    seen = {name: _Seen() for name in names}
    with ExitStack() as hooks:
        for name in names:
            block = model.get_submodule(name)
            for module, hook in (
                (block, _keep_output(seen[name], channels_first=is_convnext(model))),
                (block.get_submodule("mlp"), _keep_mlp(seen[name])),
            ):
                hooks.callback(module.register_forward_hook(hook).remove)
        yield seen


def _keep_output(seen: _Seen, *, channels_first: bool) -> Any:
    """A ConvNeXt's blocks give maps `(B, d, H, W)`, though their MLPs have the channels last."""

    def hook(_module: nn.Module, _inputs: Any, output: Tensor) -> None:
        seen.output = output.permute(0, 2, 3, 1) if channels_first else output

    return hook


def _keep_mlp(seen: _Seen) -> Any:
    def hook(_module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        seen.mlp_input, seen.mlp_output = inputs[0], output

    return hook


def _channels(dense: nn.Module, name: str, kept: Mapping[str, NDArray[np.int64]]) -> Tensor | None:
    """Channels of the dense block that the recycled one kept; None for all."""
    index = kept.get(f"body_{width_axis(dense, name)}".replace(".", "_"))
    return None if index is None else torch.from_numpy(index)


def _selected(tokens: Tensor, channels: Tensor | None) -> Tensor:
    return tokens if channels is None else tokens.index_select(-1, channels)


def _rows(output: Tensor, channels: Tensor | None) -> Tensor:
    """Tokens `(B·N, d)` of outputs `(B, …, d)`."""
    return _selected(output, channels).flatten(0, -2)


def _spaced(rows: Tensor, images: int) -> FloatTable:
    """At most 16 tokens of each image, evenly spaced."""
    by_image = rows.view(images, -1, rows.shape[-1])
    places = torch.linspace(0, by_image.shape[1] - 1, min(TOKENS, by_image.shape[1])).round().long()
    return by_image[:, places].flatten(0, 1).numpy()
