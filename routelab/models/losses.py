"""What keeps a router from collapsing? The auxiliary losses of V-MoE, Switch and ST-MoE.

Each is a statistic of a whole batch. Where a batch is spread over processes, `total` adds a tensor
up over them, differentiably, so that the loss is that of the global batch and not a mean of losses
of its parts; alone it is the identity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor

from routelab.models.routing import SparseChoice

Total = Callable[[Tensor], Tensor]


def alone(values: Tensor) -> Tensor:
    """The total over one process: the values themselves."""
    return values


def squared_variation(values: Tensor) -> Tensor:
    """Squared coefficient of variation, population variance: var / mean²."""
    return values.var(correction=0) / values.mean().square()


def importance_loss(choice: SparseChoice, *, total: Total = alone) -> Tensor:
    """CV² of Σ softmax(logits) an expert, logits without noise (V-MoE, eq. 7)."""
    return squared_variation(total(choice.logits.softmax(dim=-1).flatten(0, -2).sum(dim=0)))


def load_loss(choice: SparseChoice, noise_std: float, *, total: Total = alone) -> Tensor:
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
    return squared_variation(total(chance.flatten(0, -2).sum(dim=0)))


def balance_loss(choice: SparseChoice, *, total: Total = alone) -> Tensor:
    """E · Σ f_e P_e: 1 at uniform routing for top-1, k for top-k (Switch, eq. 4).

    f_e is the share of tokens that want expert e, over all k choices; P_e the mean gate
    probability.
    """
    probs = choice.probs.flatten(0, -2)
    experts = probs.shape[-1]
    wanted = torch.bincount(choice.expert.flatten(), minlength=experts).to(probs.dtype)
    tokens = total(probs.new_tensor(len(probs)))
    return experts * (total(wanted) / tokens * total(probs.sum(dim=0)) / tokens).sum()


def router_z_loss(logits: Tensor, *, total: Total = alone) -> Tensor:
    """Mean over tokens of (log Σ exp logits)², the square included (ST-MoE, eq. 5)."""
    squares = torch.logsumexp(logits, dim=-1).square()
    return total(squares.sum()) / total(squares.new_tensor(squares.numel()))


LOSSES = ("importance", "load", "balance", "router_z")


def auxiliary_losses(
    routings: Iterable[tuple[SparseChoice, float]],
    weights: Mapping[str, float],
    *,
    total: Total = alone,
) -> dict[str, Tensor]:
    """Sum over layers of each loss that has a weight, unweighted, by name.

    `routings` pairs each sparse layer's choice with its router's noise std. Expert choice is
    balanced by construction and soft routing has no counts: neither belongs here.
    """
    terms = {
        "importance": lambda choice, std: importance_loss(choice, total=total),
        "load": lambda choice, std: load_loss(choice, std, total=total),
        "balance": lambda choice, std: balance_loss(choice, total=total),
        "router_z": lambda choice, std: router_z_loss(choice.logits, total=total),
    }
    layers = list(routings)
    active = [name for name in LOSSES if weights.get(name, 0) > 0]
    return {
        name: torch.stack([terms[name](choice, std) for choice, std in layers]).sum()
        for name in active
        if layers
    }
