"""Soft MoE: every slot is a weighted average of all tokens (arXiv 2308.00951, section 2)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from routelab.models.routers.base import Router
from routelab.models.routing import SoftWeights
from routelab.records import SoftRecipe, SoftRouting

EPSILON = 1e-6
"""Inside the root of the norm, as in the official code."""


class SoftRouter(Router):
    """logits = ⟨l2(x), scale · l2(mu)⟩; dispatch, combine = softmax over tokens, over slots.

    Only the logits use normalised tokens; slots average the tokens as they come.
    """

    def __init__(self, width: int, experts: int, slots: int, config: SoftRouting) -> None:
        super().__init__()
        self.noise = config.noise
        self.mu = nn.Parameter(torch.empty(width, slots))
        self.scale = nn.Parameter(torch.ones(()))
        nn.init.trunc_normal_(self.mu, std=width**-0.5, a=-2 * width**-0.5, b=2 * width**-0.5)

    def route(self, tokens: Tensor) -> SoftWeights:
        """Dispatch, combine and logits, each `(B, N, S)`."""
        queries = self.scale * unit(self.mu.to(tokens.dtype), dim=0)
        logits = unit(tokens, dim=-1) @ queries
        if self.training and self.noise > 0:
            logits = logits + self.noise * torch.randn_like(logits)
        return SoftWeights(logits.softmax(dim=1), logits.softmax(dim=2), logits)

    def recipe(self) -> SoftRecipe:
        """Both softmaxes are of the logits themselves."""
        return SoftRecipe()


def unit(vectors: Tensor, dim: int) -> Tensor:
    """The vectors x · rsqrt(Σ x² + 1e-6), the official code's l2 normalisation."""
    return vectors * torch.rsqrt(vectors.square().sum(dim=dim, keepdim=True) + EPSILON)
