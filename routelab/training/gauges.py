"""Who is used while a model learns? Load, entropies, dead experts and dropped tokens, by layer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn

from routelab.models import MoELayer, Routing, SoftWeights, mlp_blocks, moe_layers
from routelab.records import Record
from routelab.training.ranks import ALONE, Ranks

DEAD = 0.01
"""An expert with less than this share of an even load counts as dead."""

SCALARS = ("dispatch_temperature", "combine_temperature", "temperature", "scale")
"""Parameters of routers that scale their logits."""


class Routed(Record):
    """What one layer's router did over the images of an epoch."""

    load: tuple[float, ...] = Field(description="share of combine mass, or of kept choices (E,)")
    load_entropy: float = Field(description="of these shares, nats; ln E is even")
    token_entropy: float = Field(
        description="mean over tokens, nats: of the mass over experts, or of the gate probabilities"
    )
    dead: int = Field(description=f"experts with under {DEAD:.0%} of an even load")
    dropped: float | None = Field(
        default=None, description="share of choices; None where experts or slots choose"
    )


def keyed_layers(model: nn.Module) -> dict[str, MoELayer]:
    """The MoE layers by the key that stores use too: the block's number in two digits."""
    layers = moe_layers(model)
    if not layers:
        return {}
    blocks = list(mlp_blocks(model))
    return {f"{blocks.index(n.rsplit('.', 1)[0]):02d}": layer for n, layer in layers.items()}


def logit_scales(model: nn.Module) -> dict[str, float]:
    """Temperatures and logit scales of the routers that have them, as `06.scale`."""
    return {
        f"{key}.{name}": float(value.detach())
        for key, layer in keyed_layers(model).items()
        for name in SCALARS
        if isinstance(value := getattr(layer.router, name, None), Tensor)
    }


def mass_of(layer: MoELayer, weights: SoftWeights) -> Tensor:
    """Token→expert mass `(B, N, E)`: combine weights summed over an expert's slots."""
    groups = layer.spec.groups
    parts = weights.combine.split([group.experts * group.slots for group in groups], dim=2)
    return torch.cat(
        [
            part.unflatten(2, (group.experts, group.slots)).sum(dim=3)
            for part, group in zip(parts, groups, strict=True)
        ],
        dim=2,
    )


class RoutingGauge:
    """Running sums of every router's decisions; nothing is copied to the host before `read`."""

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        self.layers = keyed_layers(model)
        self.sums = {
            key: torch.zeros(layer.spec.experts + 4, dtype=torch.float64, device=device)
            for key, layer in self.layers.items()
        }

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Add up what the routers decide while open, in training mode only."""
        handles = [
            layer.router.register_forward_hook(self._hook(key, layer))
            for key, layer in self.layers.items()
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _hook(self, key: str, layer: MoELayer) -> Any:
        def hook(router: nn.Module, inputs: Any, routing: Routing) -> None:
            if router.training or torch.is_grad_enabled():
                self.sums[key] += _sums(layer, routing).to(self.sums[key])

        return hook

    def clear(self) -> None:
        """Begin anew."""
        for sums in self.sums.values():
            sums.zero_()

    def totals(self, ranks: Ranks) -> dict[str, Tensor]:
        """The sums over all processes, on the host."""
        return {key: ranks.total(sums).cpu() for key, sums in self.sums.items()}

    def restore(self, totals: dict[str, Tensor], ranks: Ranks) -> None:
        """Go on from totals: the first process takes them, the others begin with nothing."""
        self.clear()
        if ranks.first:
            for key, sums in totals.items():
                self.sums[key].copy_(sums)

    def read(self, ranks: Ranks = ALONE) -> dict[str, Routed]:
        """What was seen since the last `clear`, by layer."""
        return {key: _routed(sums) for key, sums in self.totals(ranks).items() if sums[-1] > 0}


@torch.no_grad()
def _sums(layer: MoELayer, routing: Routing) -> Tensor:
    """Load (E,), then dropped choices, all choices, entropy and tokens."""
    if isinstance(routing, SoftWeights):
        mass = mass_of(layer, routing).flatten(0, 1)
        load, dropped, choices = mass.sum(dim=0), mass.new_zeros(()), mass.new_zeros(())
    else:
        mass = routing.probs.flatten(0, 1)
        kept = routing.slot >= 0
        load = torch.bincount(routing.expert[kept], minlength=mass.shape[1]).to(mass.dtype)
        tokens_choose = layer.spec.router.kind != "expert_choice"
        dropped = (~kept).sum() * tokens_choose
        choices = dropped + kept.sum() * tokens_choose
    rest = [dropped, choices, torch.special.entr(mass).sum(), mass.new_tensor(len(mass))]
    return torch.cat([load.double(), torch.stack([value.double() for value in rest])])


def _routed(sums: Tensor) -> Routed:
    """One layer's sums as shares and means."""
    load, (dropped, choices, entropy, tokens) = sums[:-4], sums[-4:].tolist()
    share = load / load.sum().clamp(min=1e-300)
    return Routed(
        load=tuple(share.tolist()),
        load_entropy=float(torch.special.entr(share).sum()),
        token_entropy=entropy / tokens,
        dead=int((share < DEAD / len(share)).sum()),
        dropped=dropped / choices if choices else None,
    )
