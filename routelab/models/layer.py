"""What stands where a block had its MLP? Router, experts, and the sum that joins them."""

from __future__ import annotations

import torch
from timm.layers.drop import DropPath
from torch import Tensor, nn

from routelab.models.experts import Experts, SharedExperts
from routelab.models.routers import ROUTERS
from routelab.models.routing import Routing, SparseChoice
from routelab.records import MoESpec


class MoELayer(nn.Module):
    """A Mixture-of-Experts layer over tokens `(B, N, d)`, or channels-last maps `(B, H, W, d)`.

    `router`, `experts` and `shared` are modules of their own: a plain forward hook on `router` sees
    the whole `Routing` value.
    """

    def __init__(self, width: int, spec: MoESpec, *, prefix: int = 0) -> None:
        super().__init__()
        self.width, self.spec, self.prefix = width, spec, prefix
        slots = sum(group.experts * group.slots for group in spec.groups)
        own = {"prefix": prefix} if spec.router.kind == "image" else {}
        self.router = ROUTERS[spec.router.kind](width, spec.experts, slots, spec.router, **own)
        self.experts = Experts(
            width, spec.groups, expert_dropout=spec.expert_dropout, dropout=spec.hidden_dropout
        )
        self.drop_path = DropPath(spec.drop_path)
        self.shared = (
            None
            if spec.shared is None
            else SharedExperts(width, spec.shared, dropout=spec.hidden_dropout)
        )

    def forward(self, tokens: Tensor) -> Tensor:
        """Layer output, shaped as the input."""
        flat = tokens.flatten(1, -2)
        return self.replay(flat, self.router(flat)).view_as(tokens)

    def replay(self, tokens: Tensor, routing: Routing) -> Tensor:
        """Output `(B, N, d)` of tokens `(B, N, d)` under a given routing, the router not asked."""
        if isinstance(routing, SparseChoice) and torch.is_autocast_enabled(tokens.device.type):
            tokens = tokens.to(torch.get_autocast_dtype(tokens.device.type))
        slots = routing.gather(tokens)
        outputs = self.experts(slots)
        out = self.drop_path(routing.scatter(outputs, tokens))
        if self.shared is not None:
            out = out + self.shared(tokens)
        return out
