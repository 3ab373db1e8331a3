"""What did a router decide? The value of a router's forward, and what it does to tokens."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class SoftWeights(NamedTuple):
    """Soft routing: every slot mixes all tokens, every token all slots.

    `dispatch (B, N, S)` sums to 1 over tokens, `combine (B, N, S)` over slots; both follow from
    `logits (B, N, S)` by the router's recipe wherever no noise was added.
    """

    dispatch: Tensor
    combine: Tensor
    logits: Tensor

    def gather(self, tokens: Tensor) -> Tensor:
        """Slot inputs `(B, S, d)`: each slot's average of the tokens `(B, N, d)`."""
        return self.dispatch.to(tokens.dtype).transpose(1, 2) @ tokens

    def scatter(self, outputs: Tensor, like: Tensor) -> Tensor:
        """Token outputs `(B, N, d)`: each token's average of the slot outputs `(B, S, d)`."""
        return self.combine.to(outputs.dtype) @ outputs


class ExpertRows(NamedTuple):
    """Rows that experts take, sorted by expert: `rows (R, d)`, and how many each takes `(E,)`."""

    rows: Tensor
    counts: Tensor


class Assignments(NamedTuple):
    """Kept (token, expert) pairs sorted by expert: flat token, expert and gate of each, `(R,)`."""

    token: Tensor
    expert: Tensor
    gate: Tensor


class SparseChoice(NamedTuple):
    """Sparse routing: each token goes to few experts, each with its gate.

    `expert`, `gate` and `slot` are `(B, N, k)`; `slot` is the place in the expert's buffer, -1
    where the choice was dropped. `probs`, `logits` and `noisy_logits` are `(B, N, E)`. Image-level
    routing has N = 1 and its choice serves all tokens. Expert choice has k = E and `expert`
    0 … E-1.
    """

    expert: Tensor
    gate: Tensor
    slot: Tensor
    probs: Tensor
    logits: Tensor
    noisy_logits: Tensor

    def gather(self, tokens: Tensor) -> ExpertRows:
        """The tokens `(B, N, d)` that each expert takes, as rows sorted by expert."""
        kept = self.assignments(tokens.shape[1])
        counts = torch.bincount(kept.expert, minlength=self.probs.shape[-1])
        return ExpertRows(tokens.flatten(0, 1)[kept.token], counts)

    def scatter(self, outputs: Tensor, like: Tensor) -> Tensor:
        """Token outputs shaped as `like (B, N, d)`: gate-weighted sums of the experts' rows."""
        kept = self.assignments(like.shape[1])
        weighted = outputs * kept.gate[:, None].to(outputs.dtype)
        empty = outputs.new_zeros(like.shape[0] * like.shape[1], like.shape[2])
        return empty.index_add(0, kept.token, weighted).view(like.shape)

    def assignments(self, tokens: int) -> Assignments:
        """Kept pairs, sorted by expert and, within one, by token."""
        expert, gate, slot = self._for_tokens(tokens)
        pair = (slot.flatten() >= 0).nonzero().squeeze(1)
        chosen = expert.flatten()[pair]
        chosen, order = chosen.sort(stable=True)
        pair = pair[order]
        return Assignments(pair // self.expert.shape[-1], chosen, gate.flatten()[pair])

    def _for_tokens(self, tokens: int) -> tuple[Tensor, Tensor, Tensor]:
        """Choice of every token: an image-level choice is repeated for each of its tokens."""
        if self.expert.shape[1] == tokens:
            return self.expert, self.gate, self.slot
        expert, gate, slot = (
            choice.expand(-1, tokens, -1) for choice in (self.expert, self.gate, self.slot)
        )
        return expert, gate, slot


Routing = SoftWeights | SparseChoice
