"""What does one layer's routing of one batch come down to: a row an image, and sums over images?

Everything here runs on the device, in float32, without a loop over experts. Two masses carry it
all: the token→expert mass `A (B, N, E)` (combine weight over the expert's slots, or the gate, zero
when dropped), and, for soft routing, the dispatch weights. Token statistics are over patch tokens;
class and register tokens have their mass in `prefix_mass`. Entropies are in nats.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from routelab.models import Routing, SoftWeights, SparseChoice
from routelab.records import RouterSpec


class Choice(NamedTuple):
    """Each patch token's distribution over experts, and the expert that it prefers.

    `shares (B, T, E)` are rows of mass scaled to sum 1; `top (B, T)` is the largest (the lowest
    index among ties); `valid (B, T)` is False, and `shares` 0, where all choices were dropped.
    """

    shares: Tensor
    top: Tensor
    largest: Tensor
    valid: Tensor


class Decision(NamedTuple):
    """Routing of one layer as masses: `mass (B, N, E)`, its patch rows, and their `choice`."""

    mass: Tensor
    patches: Tensor
    choice: Choice


def decide(routing: Routing, spec: RouterSpec) -> Decision:
    """Masses and preferences of one layer's routing of B images."""
    mass = token_mass(routing, spec)
    patches = mass[:, spec.prefix :]
    return Decision(mass, patches, choose(patches))


def layer_sums(decision: Decision, routing: Routing, spec: RouterSpec) -> dict[str, Tensor]:
    """Increments of the totals: coactivation (E, E), position_mass (T, E), mass_log_mass, tokens.

    Coactivation is Σ_t m_i·m_j over patch tokens (soft), or the number of tokens that both experts
    kept (sparse). `mass_log_mass` is Σ p ln p over the `tokens` patch tokens that have any mass.
    """
    if isinstance(routing, SoftWeights):
        together = decision.patches
    else:
        together = kept(routing, spec)[:, spec.prefix :]
    flat = together.flatten(0, 1)
    return {
        "coactivation": flat.T @ flat,
        "position_mass": decision.patches.sum(dim=0),
        "mass_log_mass": -entropy(decision.choice.shares).sum(),
        "tokens": decision.choice.valid.sum(),
    }


def image_profiles(decision: Decision) -> dict[str, Tensor]:
    """Mean mass of an image's patch tokens, and how many prefer each expert, `(B, E)` each."""
    choice, profile = decision.choice, decision.patches.mean(dim=1)
    hits = torch.zeros(profile.shape, dtype=torch.int32, device=profile.device)
    hits.scatter_add_(1, choice.top, choice.valid.int())
    return {"profile": profile, "hits": hits}


def image_tables(decision: Decision, routing: Routing, spec: RouterSpec) -> dict[str, Tensor]:
    """One row an image.

    Returns
    -------
    dict
        profile (B, E), hits (B, E) int32; means over the patch tokens that have any mass:
        token_entropy, hardness, margin, disagreement, coherence (B,), NaN where there is none;
        prefix_mass (B, prefix, E) where there are prefix tokens; effective_tokens (B,) for soft
        routing, dropped (B,) and gate_probs_profile (B, E) for sparse.
    """
    tables = image_profiles(decision)
    tables |= _token_means(decision.choice, tables["profile"])
    tables["coherence"] = coherence(decision.choice, None if spec.image_level else spec.grid)
    if spec.prefix:
        tables["prefix_mass"] = decision.mass[:, : spec.prefix]
    if isinstance(routing, SoftWeights):
        tables["effective_tokens"] = effective_tokens(routing, spec)
    else:
        tables["dropped"] = dropped_share(routing, spec)
        tables["gate_probs_profile"] = routing.probs[:, spec.prefix :].float().mean(dim=1)
    return tables


def token_mass(routing: Routing, spec: RouterSpec) -> Tensor:
    """Token→expert mass A `(B, N, E)`, float32."""
    if isinstance(routing, SoftWeights):
        return sum_slots(routing.combine.float(), spec)
    gate = routing.gate.float().masked_fill(routing.slot < 0, 0.0)
    return _by_expert(routing, gate, spec)


def kept(routing: SparseChoice, spec: RouterSpec) -> Tensor:
    """1 where an expert took a token, else 0: `(B, N, E)` float32."""
    return _by_expert(routing, (routing.slot >= 0).float(), spec)


def sum_slots(weights: Tensor, spec: RouterSpec) -> Tensor:
    """Slot weights `(B, N, S)` summed over each expert's slots: `(B, N, E)`."""
    parts, start = [], 0
    for group in spec.groups:
        experts = group.stop - group.start
        stop = start + experts * group.slots
        part = weights[..., start:stop]
        parts.append(
            part if group.slots == 1 else part.unflatten(-1, (experts, group.slots)).sum(dim=-1)
        )
        start = stop
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


def choose(mass: Tensor) -> Choice:
    """Scale the rows of mass `(B, T, E)` to distributions and find each token's expert."""
    total = mass.sum(dim=-1, keepdim=True)
    valid = total > 0
    shares = mass / torch.where(valid, total, torch.ones_like(total))
    largest, top = shares.max(dim=-1)
    return Choice(shares, top, largest, valid.squeeze(-1))


def entropy(shares: Tensor) -> Tensor:
    """−Σ p ln p over the last axis, with 0 · ln 0 = 0."""
    floor = torch.finfo(shares.dtype).tiny
    return -torch.linalg.vecdot(shares, shares.clamp(min=floor).log())


def coherence(choice: Choice, grid: tuple[int, int] | None) -> Tensor:
    """Share of 4-neighbour patch pairs with one expert `(B,)`; NaN without a grid or a pair."""
    if grid is None:
        return choice.largest.new_full((len(choice.top),), math.nan)
    top, valid = choice.top.unflatten(1, grid), choice.valid.unflatten(1, grid)
    down = valid[:, 1:] & valid[:, :-1]
    right = valid[:, :, 1:] & valid[:, :, :-1]
    pairs = down.sum(dim=(1, 2)) + right.sum(dim=(1, 2))
    same = ((top[:, 1:] == top[:, :-1]) & down).sum(dim=(1, 2))
    same = same + ((top[:, :, 1:] == top[:, :, :-1]) & right).sum(dim=(1, 2))
    return same.float() / pairs


def effective_tokens(routing: SoftWeights, spec: RouterSpec) -> Tensor:
    """Mean over slots of exp H(dispatch column over all tokens): `(B,)`, from 1 to N.

    Where dispatch is softmax(z) over tokens, H = ln Z − Σ D·z, and ln Z = max z − ln max D: two
    maxima and one dot product in place of a logarithm for every weight.
    """
    dispatch = routing.dispatch.float()
    if spec.recipe is None:
        spread = entropy(dispatch.transpose(1, 2))
    else:
        scaled = routing.logits.float() / spec.recipe.dispatch_temperature
        log_normaliser = scaled.amax(dim=1) - dispatch.amax(dim=1).log()
        spread = log_normaliser - torch.linalg.vecdot(dispatch, scaled, dim=1)
    return spread.clamp(0, math.log(dispatch.shape[1])).exp().mean(dim=-1)


def pool_features(tokens: Tensor, prefix: int) -> Tensor:
    """Mean patch token `(B, d)` of tokens `(B, T, d)`; the first `prefix` are left out."""
    return tokens[:, prefix:].float().mean(dim=1)


def _by_expert(routing: SparseChoice, values: Tensor, spec: RouterSpec) -> Tensor:
    """Scatter `(B, N, k)` values to the experts that they belong to: `(B, N, E)`."""
    empty = values.new_zeros(*values.shape[:-1], spec.experts)
    return empty.scatter_add_(-1, routing.expert, values)


def _token_means(choice: Choice, profile: Tensor) -> dict[str, Tensor]:
    """Means over the valid patch tokens of each image; 0 / 0, so NaN, where it has none."""
    count = choice.valid.sum(dim=1)
    second = choice.shares.scatter(-1, choice.top[..., None], -math.inf).amax(dim=-1).clamp(min=0)
    away = (choice.top != profile.argmax(dim=-1, keepdim=True)) & choice.valid
    return {
        "token_entropy": entropy(choice.shares).sum(dim=1) / count,
        "hardness": choice.largest.sum(dim=1) / count,
        "margin": (choice.largest - second).sum(dim=1) / count,
        "disagreement": away.sum(dim=1) / count,
    }


def dropped_share(routing: SparseChoice, spec: RouterSpec) -> Tensor:
    """Share of patch tokens' wanted choices that no expert took, `(B,)`.

    In expert choice tokens want nothing, experts pick: there it is the share of patch tokens that
    no expert picked.
    """
    missed = routing.slot[:, spec.prefix :] < 0
    if spec.kind == "expert_choice":
        missed = missed.all(dim=-1, keepdim=True)
    return missed.float().mean(dim=(1, 2))
