"""What keeps a router from collapsing? The auxiliary losses of V-MoE, Switch and ST-MoE."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from routelab.models.routing import SparseChoice


def squared_variation(values: Tensor) -> Tensor:
    """Squared coefficient of variation, population variance: var / mean²."""
    return values.var(correction=0) / values.mean().square()


def importance_loss(choice: SparseChoice) -> Tensor:
    """CV² of Σ softmax(logits) an expert, logits without noise (V-MoE, eq. 7)."""
    return squared_variation(choice.logits.softmax(dim=-1).flatten(0, -2).sum(dim=0))


def load_loss(choice: SparseChoice, noise_std: float) -> Tensor:
    """CV² of the mean probability that fresh noise lifts an expert into the top k (V-MoE, eq. 9).

    p = 1 - Φ((τ - logit) / noise_std), τ the k-th largest noisy logit of the token.

    Raises
    ------
    ValueError
        Without noise the probability is a step and the loss has no gradient.
    """
    if noise_std <= 0:
        raise ValueError("the load loss needs router noise; set the router's noise above 0")
    k = choice.expert.shape[-1]
    threshold = choice.noisy_logits.topk(k, dim=-1).values[..., -1:]
    chance = 1 - torch.special.ndtr((threshold - choice.logits) / noise_std)
    return squared_variation(chance.flatten(0, -2).mean(dim=0))


def balance_loss(choice: SparseChoice) -> Tensor:
    """E · Σ f_e P_e: 1 at uniform routing for top-1, k for top-k (Switch, eq. 4).

    f_e is the share of tokens that want expert e, over all k choices; P_e the mean gate
    probability.
    """
    experts = choice.probs.shape[-1]
    wanted = torch.bincount(choice.expert.flatten(), minlength=experts)
    tokens = choice.expert.shape[:-1].numel()
    share = wanted.to(choice.probs.dtype) / tokens
    return experts * (share * choice.probs.flatten(0, -2).mean(dim=0)).sum()


def router_z_loss(logits: Tensor) -> Tensor:
    """Mean over tokens of (log Σ exp logits)², the square included (ST-MoE, eq. 5)."""
    return torch.logsumexp(logits, dim=-1).square().mean()


LOSSES = ("importance", "load", "balance", "router_z")


def auxiliary_losses(
    routings: Iterable[tuple[SparseChoice, float]], weights: Mapping[str, float]
) -> dict[str, Tensor]:
    """Sum over layers of each loss that has a weight, unweighted, by name.

    `routings` pairs each sparse layer's choice with its router's noise std. Expert choice is
    balanced by construction and soft routing has no counts: neither belongs here.
    """
    terms = {
        "importance": lambda choice, std: importance_loss(choice),
        "load": load_loss,
        "balance": lambda choice, std: balance_loss(choice),
        "router_z": lambda choice, std: router_z_loss(choice.logits),
    }
    layers = list(routings)
    active = [name for name in LOSSES if weights.get(name, 0) > 0]
    return {
        name: torch.stack([terms[name](choice, std) for choice, std in layers]).sum()
        for name in active
        if layers
    }
