"""Expert choice: each expert picks its tokens, image by image (arXiv 2202.09368)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from routelab.models.routers.sparse import GatedRouter, largest, renormalized
from routelab.models.routing import SparseChoice
from routelab.records import ExpertChoiceRouting


class ExpertChoiceRouter(GatedRouter):
    """Each expert takes the ceil(C · N / E) tokens of an image with its largest softmax values.

    `expert` is 0 … E-1 for every token; `slot` is -1 where the expert did not pick the token.
    """

    def __init__(self, width: int, experts: int, slots: int, config: ExpertChoiceRouting) -> None:
        super().__init__(width, experts, config.noise)
        self.config = config

    def route(self, tokens: Tensor) -> SparseChoice:
        """Choices `(B, N, E)` of tokens `(B, N, d)`."""
        gates = self.gates(tokens)
        capacity = self.capacity(tokens.shape[1])
        _, picked = largest(gates.probs.transpose(1, 2), capacity)
        slot = torch.full_like(gates.probs.transpose(1, 2), -1, dtype=torch.int64)
        places = torch.arange(capacity, device=slot.device).expand_as(picked)
        slot = slot.scatter(2, picked, places).transpose(1, 2)
        gate = gates.probs
        if self.config.renormalize:
            taken = slot >= 0
            gate = torch.where(taken, renormalized(gate * taken), gate)
        expert = torch.arange(slot.shape[-1], device=slot.device).expand_as(slot)
        return SparseChoice(expert, gate, slot, gates.probs, gates.logits, gates.noisy_logits)

    def capacity(self, tokens: int) -> int:
        """Tokens that each expert takes of an image of so many."""
        wanted = math.ceil(self.config.capacity_factor * tokens / self.gate.out_features)
        return min(tokens, wanted)
