"""What need not be computed again? What lies below the first MoE block, while it is frozen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from routelab.data import Batch, Images, InMemory
from routelab.models import moe_layers
from routelab.records import Refusal


class Suffix(nn.Module):
    """A vision transformer from its first MoE block on: tokens `(B, N, d)` to logits `(B, C)`."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.first = model, first_moe_block(model)

    def forward(self, tokens: Tensor) -> Tensor:
        """Class logits of the tokens that enter the first MoE block."""
        model = self.model
        tokens = model.blocks[self.first :](tokens)  # type: ignore[index,operator]
        logits: Tensor = model.forward_head(model.norm(tokens))  # type: ignore[operator]
        return logits


@dataclass(frozen=True, eq=False)
class Tokens:
    """The tokens `(n, N, d)` that enter the first MoE block, and the labels `(n,)`."""

    tokens: Tensor
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)

    def batches(
        self, batch_size: int, *, order: Sequence[int] | NDArray[np.int64] | None = None
    ) -> Iterator[Batch]:
        """Batches whose `pixels` are tokens `(b, N, d)` in float32."""
        indices = np.arange(len(self)) if order is None else np.asarray(order, dtype=np.int64)
        for start in range(0, len(indices), batch_size):
            chosen = indices[start : start + batch_size]
            labels = torch.from_numpy(self.labels[chosen])
            yield Batch(self.tokens[torch.from_numpy(chosen)].float(), labels, chosen)


@torch.no_grad()
def compute_tokens(
    model: nn.Module,
    data: Images | InMemory,
    *,
    batch_size: int,
    dtype: torch.dtype,
    device: torch.device,
) -> Tokens:
    """Run every image up to the first MoE block; n · N · d numbers of `dtype` in host memory."""
    model.eval()
    block: nn.Module = model.blocks[first_moe_block(model)]  # type: ignore[index,assignment]
    kept: Tensor | None = None
    handle = block.register_forward_pre_hook(_stop)
    try:
        for batch in data.batches(batch_size):
            tokens = _entering(model, batch.pixels.to(device))
            if kept is None:
                kept = torch.empty((len(data), *tokens.shape[1:]), dtype=dtype)
            kept[torch.from_numpy(batch.images)] = tokens.to("cpu", dtype)
    finally:
        handle.remove()
    assert kept is not None  # a data set holds at least one image
    return Tokens(kept, data.labels)


def first_moe_block(model: nn.Module) -> int:
    """Number of the first block with a MoE layer.

    Raises
    ------
    Refusal
        If the model is dense, or not a chain of `blocks`, `norm` and head as timm's ViTs are.
    """
    layers = list(moe_layers(model))
    parts = layers[0].split(".") if layers else []
    chain = all(hasattr(model, name) for name in ("blocks", "norm", "forward_head"))
    if not chain or len(parts) != 3 or parts[0] != "blocks":
        raise Refusal(
            f"cache_prefix needs a MoE vision transformer of timm, and this is a "
            f"{'dense ' if not layers else ''}{type(model).__name__}; leave cache_prefix out"
        )
    return int(parts[1])


class _Reached(Exception):
    """The forward pass has come to the first MoE block."""

    def __init__(self, tokens: Tensor) -> None:
        self.tokens = tokens


def _stop(block: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    raise _Reached(inputs[0])


def _entering(model: nn.Module, pixels: Tensor) -> Tensor:
    """Tokens that enter the block that stops the forward pass."""
    try:
        model(pixels)
    except _Reached as reached:
        return reached.tokens
    raise RuntimeError("the first MoE block did not run")
