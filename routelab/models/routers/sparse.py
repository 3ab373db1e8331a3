"""What do all sparse routers share: a linear gate, its noise, and the queue at an expert?"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from routelab.models.routers.base import Router


class Gates(NamedTuple):
    """Clean logits, logits with training noise, and the softmax of the latter: each `(B, N, E)`."""

    logits: Tensor
    noisy_logits: Tensor
    probs: Tensor


class GatedRouter(Router):
    """A bias-free linear gate with noise N(0, (noise/E)²) on its logits in training."""

    def __init__(self, width: int, experts: int, noise: float) -> None:
        super().__init__()
        self.noise_std = noise / experts
        self.gate = nn.Linear(width, experts, bias=False)
        nn.init.trunc_normal_(self.gate.weight, std=0.02)

    def gates(self, tokens: Tensor) -> Gates:
        """Softmax over experts of the (noisy) logits."""
        logits = nn.functional.linear(tokens, self.gate.weight.to(tokens.dtype))
        noisy = logits
        if self.training and self.noise_std > 0:
            noisy = logits + self.noise_std * torch.randn_like(logits)
        return Gates(logits, noisy, noisy.softmax(dim=-1))


def largest(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest along the last axis and their indices; ties go to the lowest index."""
    ordered, index = values.sort(dim=-1, descending=True, stable=True)
    return ordered[..., :k], index[..., :k]


def renormalized(gate: Tensor) -> Tensor:
    """Gates that sum to 1 over a token's choices; all zero stays zero."""
    total = gate.sum(dim=-1, keepdim=True)
    return gate / torch.where(total > 0, total, torch.ones_like(total))


def place_in_queue(expert: Tensor) -> Tensor:
    """For choices in queue order `(G, Q)`, how many earlier choices want the same expert."""
    ordered, order = expert.sort(dim=-1, stable=True)
    first = torch.searchsorted(ordered, ordered, right=False)
    rank = torch.arange(expert.shape[-1], device=expert.device) - first
    return torch.empty_like(rank).scatter_(-1, order, rank)
