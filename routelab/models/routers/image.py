"""Image-level routing: one decision for all tokens of an image (ViMoE, arXiv 2410.15732)."""

from __future__ import annotations

import torch
from torch import Tensor

from routelab.models.routers.sparse import GatedRouter, largest, renormalized
from routelab.models.routing import SparseChoice
from routelab.records import ImageRouting, Refusal


class ImageRouter(GatedRouter):
    """Top-k of softmax(W s), s the class token or the mean patch token; nothing is dropped."""

    def __init__(
        self, width: int, experts: int, slots: int, config: ImageRouting, prefix: int = 0
    ) -> None:
        super().__init__(width, experts, config.noise)
        if config.source == "class" and prefix == 0:
            raise Refusal(
                "an image-level gate on the class token needs a model that has one; "
                "set the router's source to 'mean'"
            )
        self.config = config
        self.prefix = prefix

    def route(self, tokens: Tensor) -> SparseChoice:
        """Choices `(B, 1, k)` of images with tokens `(B, N, d)`."""
        if self.config.source == "class":
            summary = tokens[:, :1]
        else:
            summary = tokens[:, self.prefix :].mean(dim=1, keepdim=True)
        gates = self.gates(summary)
        gate, expert = largest(gates.probs, self.config.k)
        if self.config.renormalize:
            gate = renormalized(gate)
        return SparseChoice(
            expert, gate, torch.zeros_like(expert), gates.probs, gates.logits, gates.noisy_logits
        )
