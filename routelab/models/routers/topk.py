"""Token choice: each token picks its k experts, each expert has room for so many (V-MoE)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from routelab.models.routers.sparse import GatedRouter, largest, place_in_queue, renormalized
from routelab.models.routing import SparseChoice
from routelab.records import TopKRouting


class TopKRouter(GatedRouter):
    """Top-k of softmax(W x + noise); the gate is the softmax value, not renormalised unless asked.

    Tokens of a group of images queue for the experts' buffers: all first choices before all second
    choices, in token order or, with batch priority, by their largest gate. Whoever finds the buffer
    full is dropped: slot -1. V-MoE (arXiv 2106.05974), sections 2.2 and 3.
    """

    def __init__(self, width: int, experts: int, slots: int, config: TopKRouting) -> None:
        super().__init__(width, experts, config.noise)
        self.config = config

    def route(self, tokens: Tensor) -> SparseChoice:
        """Choices `(B, N, k)` of tokens `(B, N, d)`."""
        gates = self.gates(tokens)
        gate, expert = largest(gates.probs, self.config.k)
        slot = self._slots(gate.detach(), expert)
        if self.config.renormalize:
            gate = renormalized(gate)
        return SparseChoice(expert, gate, slot, gates.probs, gates.logits, gates.noisy_logits)

    def capacity(self, tokens: int) -> int | None:
        """Buffer places an expert for a group of so many tokens; None where no token is dropped."""
        if self.config.capacity_factor is None:
            return None
        experts = self.gate.out_features
        places = math.ceil(tokens * self.config.k * self.config.capacity_factor / experts)
        multiple = self.config.round_capacity_to
        return math.ceil(places / multiple) * multiple

    def _slots(self, gate: Tensor, expert: Tensor) -> Tensor:
        """Place of each choice `(B, N, k)`, group by group; a short last group has less room."""
        groups = expert.split(self.config.images_per_group)
        gates = gate.split(self.config.images_per_group)
        full = [i for i, g in enumerate(groups) if len(g) == len(groups[0])]
        slots = [
            self._group_slots(
                torch.stack([gates[i] for i in full]), torch.stack([groups[i] for i in full])
            )
        ]
        slots += [
            self._group_slots(gates[i][None], groups[i][None])
            for i in range(len(full), len(groups))
        ]
        return torch.cat([s.flatten(0, 1) for s in slots])

    def _group_slots(self, gate: Tensor, expert: Tensor) -> Tensor:
        """Places for groups of equal size, `(G, images, N, k)`."""
        shape = expert.shape
        queue = expert.flatten(1, 2).transpose(1, 2)  # (G, k, tokens): first choices come first
        if self.config.batch_priority:
            front = gate.flatten(1, 2)[..., 0].argsort(dim=-1, descending=True, stable=True)
            order = front[:, None].expand_as(queue)
            place = place_in_queue(queue.gather(2, order).flatten(1)).view_as(queue)
            place = torch.empty_like(place).scatter_(2, order, place)
        else:
            place = place_in_queue(queue.flatten(1)).view_as(queue)
        capacity = self.capacity(queue.shape[2])
        if capacity is not None:
            place = place.masked_fill(place >= capacity, -1)
        return place.transpose(1, 2).reshape(shape)
