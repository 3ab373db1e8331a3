"""What is a router? A module whose forward output is the `Routing`, so one hook sees it all."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from routelab.models.routing import Routing
from routelab.records import SoftRecipe


class Router(nn.Module, ABC):
    """Turns tokens `(B, N, d)` into a `Routing`, in float32 or better; noise only in training."""

    def forward(self, tokens: Tensor) -> Routing:
        """Route one batch of tokens `(B, N, d)`, whatever the precision of the rest."""
        with torch.autocast(tokens.device.type, enabled=False):
            return self.route(full_precision(tokens))

    @abstractmethod
    def route(self, tokens: Tensor) -> Routing:
        """Route tokens `(B, N, d)` of float32 or float64."""

    def capacity(self, tokens: int) -> int | None:
        """Buffer places an expert for a group of so many tokens; None where nothing is dropped."""
        return None

    def recipe(self) -> SoftRecipe | None:
        """How weights follow from logits; None for sparse routing."""
        return None


def full_precision(tokens: Tensor) -> Tensor:
    """Tokens in float32, or float64 if they came so: small differences decide who is chosen."""
    return tokens if tokens.dtype == torch.float64 else tokens.float()
