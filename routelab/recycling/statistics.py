"""How do hidden neurons act over images? Sums in one streaming pass, never a list of activations.

Memory is bounded by one batch and the sums: `O(n)` a layer, and `O(n²)` where co-activation is
asked for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from routelab.data import Images
from routelab.records import Refusal
from routelab.recycling.blocks import DenseMlp, dense_mlps
from routelab.recycling.cost import Cost, Stopwatch, peak_memory
from routelab.recycling.selection import Coactivation

FloatArray = NDArray[np.float64]
Kind = Literal["none", "firing", "activation"]
Score = Literal["l1", "l2", "firing"]
SCORES: tuple[Score, ...] = get_args(Score)

ROWS = 256
"""Tokens whose temporaries are alive at a time: they stay in the processor's cache."""


@dataclass(frozen=True, eq=False)
class LayerStatistics:
    """Sums over the tokens of one layer.

    `l1`, `l2` and `firing` are Σ|a|, Σa² and the count of a > 0 of each hidden neuron `(n,)`, after
    the activation function; `channel_l1` and `channel_l2` the same sums of the MLP's input `(d,)`.
    `together (n, n)` is FᵀF of the firing indicator, or of the positive part of the activations,
    `alone (n,)` the column sums of the same F.
    """

    tokens: int
    l1: FloatArray
    l2: FloatArray
    firing: FloatArray
    channel_l1: FloatArray
    channel_l2: FloatArray
    together: FloatArray | None = None
    alone: FloatArray | None = None

    def score(self, name: Score) -> FloatArray:
        """Mean |a|, root mean a², or firing rate of each neuron `(n,)`."""
        total = {"l1": self.l1, "l2": self.l2, "firing": self.firing}[name]
        mean = total / max(self.tokens, 1)
        return np.sqrt(mean) if name == "l2" else mean

    def channel_score(self) -> FloatArray:
        """Root mean square of each channel of the MLP's input `(d,)`."""
        return np.sqrt(self.channel_l2 / max(self.tokens, 1))

    @property
    def coactivation(self) -> Coactivation | None:
        """What the graph method needs; None if it was not asked for."""
        if self.together is None or self.alone is None:
            return None
        return Coactivation(self.together, self.alone, self.tokens)


@dataclass(frozen=True, eq=False)
class ActivationStatistics:
    """Statistics of layers by block number, what they were made from, and what they cost."""

    layers: dict[int, LayerStatistics]
    images: int
    coactivation: Kind = "none"
    source: str = ""
    data: str = ""
    cost: Cost = field(default_factory=Cost)


class LayerSums:
    """Running sums of one layer, float64."""

    def __init__(self, mlp: DenseMlp, coactivation: Kind) -> None:
        hidden, device = mlp.hidden, mlp.fc1.weight.device
        dtype = torch.float32 if device.type == "mps" else torch.float64
        self.tokens, self.coactivation = 0, coactivation
        self.neurons = torch.zeros(4, hidden, dtype=dtype, device=device)
        self.channels = torch.zeros(2, mlp.width, dtype=dtype, device=device)
        self.ones = torch.ones(ROWS, device=device)
        self.room = torch.empty(ROWS * max(hidden, mlp.width), device=device)
        self.together: Tensor | None = None
        if coactivation != "none":
            self.together = torch.zeros(hidden, hidden, dtype=dtype, device=device)

    def add_channels(self, tokens: Tensor) -> None:
        """Add the MLP's input `(…, d)` to the sums."""
        for rows in tokens.flatten(0, -2).float().split(ROWS):
            ones, place = self._places(rows)
            absolute = ones @ torch.abs(rows, out=place)
            self.channels += torch.stack([absolute, ones @ torch.mul(rows, rows, out=place)])

    def add_neurons(self, activations: Tensor) -> None:
        """Add activations `(…, n)` to the sums."""
        flat = activations.flatten(0, -2).float()
        self.tokens += len(flat)
        for rows in flat.split(ROWS):
            ones, place = self._places(rows)
            sums = [ones @ torch.abs(rows, out=place)]
            sums.append(ones @ torch.mul(rows, rows, out=place))
            sums.append(ones @ torch.gt(rows, 0, out=place))
            if self.coactivation == "activation":
                sums.append(ones @ torch.clamp(rows, min=0, out=place))
            self.neurons[: len(sums)] += torch.stack(sums)
        if self.together is not None:
            acts = (flat > 0).float() if self.coactivation == "firing" else flat.clamp(min=0)
            self.together += acts.T @ acts

    def _places(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Ones `(r,)` to sum rows with, and room `(r, c)` for what is summed.

        Both are used again and again: fresh memory costs more than the arithmetic.
        """
        count, columns = rows.shape
        return self.ones[:count], self.room[: count * columns].view(count, columns)

    def result(self) -> LayerStatistics:
        """The sums as arrays."""
        l1, l2, firing, positive = self.neurons.cpu().numpy().astype(np.float64)
        channel_l1, channel_l2 = self.channels.cpu().numpy().astype(np.float64)
        together = None
        if self.together is not None:
            together = self.together.cpu().numpy().astype(np.float64)
        alone = {"none": None, "firing": firing, "activation": positive}[self.coactivation]
        return LayerStatistics(self.tokens, l1, l2, firing, channel_l1, channel_l2, together, alone)


@torch.inference_mode()
def activation_statistics(
    model: nn.Module,
    images: Images,
    layers: Sequence[int] | None = None,
    *,
    coactivation: Kind = "none",
    batch_size: int = 32,
    source: str = "",
    progress: Callable[[int, int], None] | None = None,
) -> ActivationStatistics:
    """Statistics of a dense model's hidden neurons over images, in one pass.

    Parameters
    ----------
    model
        Dense; it is run as it stands, in evaluation mode, on its own device.
    images
        Every one of them is read; take a `balanced_sample` first where they are many.
    layers
        Block numbers; None: all.
    coactivation
        "firing" and "activation" add an n × n matrix to each layer, and its product to each batch.
    batch_size
        Images a forward pass.
    source
        SHA-256 of the model's weights, kept with the result.
    progress
        Called with (images done, images in all).

    Raises
    ------
    Refusal
        A layer out of range, or an image that cannot be read.
    """
    mlps = dense_mlps(model)
    chosen = [mlps[depth] for depth in _in_range(layers, len(mlps))]
    sums = {mlp.depth: LayerSums(mlp, coactivation) for mlp in chosen}
    watch, device = Stopwatch(), next(model.parameters()).device
    model.eval()
    with ExitStack() as hooks:
        for mlp in chosen:
            for handle in _hooks(mlp, sums[mlp.depth], watch):
                hooks.callback(handle.remove)
        for done, pixels in _read(images, batch_size, watch):
            with watch.time("all"):
                model(pixels.to(device))
            if progress is not None:
                progress(done, len(images))
    return ActivationStatistics(
        {depth: layer.result() for depth, layer in sums.items()},
        images=len(images),
        coactivation=coactivation,
        source=source,
        data=data_fingerprint(images),
        cost=_cost(watch, len(images)),
    )


def data_fingerprint(images: Images) -> str:
    """SHA-256 of the images' ids and labels, and of how their pixels are made."""
    said = images.card.sha256 + images.transform.model_dump_json()
    return hashlib.sha256(said.encode()).hexdigest()


def _in_range(layers: Sequence[int] | None, count: int) -> list[int]:
    if layers is None:
        return list(range(count))
    for layer in layers:
        if not 0 <= layer < count:
            raise Refusal(
                f"layer {layer} does not exist: this model has {count} blocks with an MLP, "
                f"numbered 0 to {count - 1}"
            )
    return sorted(set(layers))


def _hooks(mlp: DenseMlp, sums: LayerSums, watch: Stopwatch) -> list[Any]:
    """Hooks on the MLP's input and on its activation, timed as bookkeeping."""

    def entering(_module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        with watch.time("bookkeeping"):
            sums.add_channels(inputs[0])

    def activated(_module: nn.Module, _inputs: Any, output: Tensor) -> None:
        with watch.time("bookkeeping"):
            sums.add_neurons(output)

    return [
        mlp.mlp.register_forward_pre_hook(entering),
        mlp.act.register_forward_hook(activated),
    ]


def _read(images: Images, batch_size: int, watch: Stopwatch) -> Iterator[tuple[int, Tensor]]:
    """Images done after each batch, and its pixels; waiting for them is timed as reading."""
    batches, done = images.batches(batch_size), 0
    while True:
        with watch.time("reading"):
            batch = next(batches, None)
        if batch is None:
            return
        done += len(batch.images)
        yield done, batch.pixels


def _cost(watch: Stopwatch, images: int) -> Cost:
    return Cost(
        images=images,
        reading=watch["reading"],
        forward=watch["all"] - watch["bookkeeping"],
        bookkeeping=watch["bookkeeping"],
        peak_memory=peak_memory(),
    )
