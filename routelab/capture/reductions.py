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


class Reduction(NamedTuple):
    """`images`: one row an image, `(B, …)`; `sums`: increments of the running totals."""

    images: dict[str, Tensor]
    sums: dict[str, Tensor]


class Choice(NamedTuple):
    """Each patch token's distribution over experts, and the expert that it prefers.

    `shares (B, T, E)` are rows of mass scaled to sum 1; `top (B, T)` is the largest (the lowest
    index among ties); `valid (B, T)` is False, and `shares` 0, where all choices were dropped.
    """

    shares: Tensor
    top: Tensor
    largest: Tensor
    valid: Tensor


def reduce_routing(routing: Routing, spec: RouterSpec) -> Reduction:
    """Per-image tables and increments of the totals of one layer.

    Parameters
    ----------
    routing
        What the layer's router returned for B images.
    spec
        The layer: tokens, prefix tokens, grid, experts and their slots.

    Returns
    -------
    Reduction
        `images`: profile (B, E), prefix_mass (B, prefix, E), hits (B, E) int32, token_entropy,
        hardness, margin, disagreement, coherence (B,), and effective_tokens (soft) or dropped and
        gate_probs_profile (sparse). `sums`: coactivation (E, E), position_mass (T, E),
        mass_log_mass () and tokens ().
    """
    mass = token_mass(routing, spec)
    patches = mass[:, spec.prefix :]
    choice = choose(patches)
    profile = patches.mean(dim=1)
    images = {"profile": profile, **_token_statistics(choice, profile)}
    images["coherence"] = coherence(choice, None if spec.image_level else spec.grid)
    if spec.prefix:
        images["prefix_mass"] = mass[:, : spec.prefix]
    images |= _family_statistics(routing, spec)
    together = (
        patches if isinstance(routing, SoftWeights) else kept(routing, spec)[:, spec.prefix :]
    )
    flat = together.flatten(0, 1)
    sums = {
        "coactivation": flat.T @ flat,
        "position_mass": patches.sum(dim=0),
        "mass_log_mass": -entropy(choice.shares).sum(),
        "tokens": choice.valid.sum(),
    }
    return Reduction(images, sums)


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


def _token_statistics(choice: Choice, profile: Tensor) -> dict[str, Tensor]:
    """Hits and the means over an image's valid patch tokens; NaN where it has none."""
    valid, top = choice.valid, choice.top
    hits = torch.zeros(profile.shape, dtype=torch.int32, device=profile.device)
    hits.scatter_add_(1, top, valid.int())
    count = valid.sum(dim=1)
    second = choice.shares.scatter(-1, top[..., None], -math.inf).amax(dim=-1).clamp(min=0)
    away = (top != profile.argmax(dim=-1, keepdim=True)) & valid
    return {
        "hits": hits,
        "token_entropy": entropy(choice.shares).sum(dim=1) / count,
        "hardness": choice.largest.sum(dim=1) / count,
        "margin": (choice.largest - second).sum(dim=1) / count,
        "disagreement": away.sum(dim=1) / count,
    }


def _family_statistics(routing: Routing, spec: RouterSpec) -> dict[str, Tensor]:
    """What only soft, or only sparse, routing has."""
    if isinstance(routing, SoftWeights):
        return {"effective_tokens": effective_tokens(routing, spec)}
    return {
        "dropped": dropped_share(routing, spec),
        "gate_probs_profile": routing.probs[:, spec.prefix :].float().mean(dim=1),
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
