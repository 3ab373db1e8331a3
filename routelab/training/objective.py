"""What is minimised? Cross entropy, and what keeps routers from collapsing; each part by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from routelab.models import MoELayer, Routing, SparseChoice, auxiliary_losses, moe_layers
from routelab.records import Refusal
from routelab.training.recipe import Recipe

BALANCED = ("topk", "image")
"""Routers that auxiliary losses act on; expert choice is balanced by construction."""

Seen = list[tuple[SparseChoice, float]]


class Loss(NamedTuple):
    """The weighted sum that is minimised, and its parts without their weights."""

    total: Tensor
    parts: dict[str, Tensor]


def loss_of(logits: Tensor, labels: Tensor, seen: Seen, recipe: Recipe) -> Loss:
    """Loss of one batch: class logits `(B, C)`, labels `(B,)`, and the choices its routers made."""
    parts = {"cross_entropy": cross_entropy(logits, labels, label_smoothing=recipe.label_smoothing)}
    weights: dict[str, float] = {str(name): w for name, w in recipe.auxiliary.items()}
    parts |= auxiliary_losses(seen, weights)
    weights["cross_entropy"] = 1.0
    total = torch.stack([weights[name] * part for name, part in parts.items()]).sum()
    return Loss(total, parts)


@contextmanager
def watched_routers(model: nn.Module, recipe: Recipe) -> Iterator[Seen]:
    """While open, a list that each forward pass fills with its sparse choices; clear it yourself.

    Raises
    ------
    Refusal
        If the recipe weighs losses that this model's routers do not have.
    """
    seen: Seen = []
    layers = [layer for layer in moe_layers(model).values() if _balanced(layer)]
    _check(layers, recipe)
    wanted = layers if any(weight > 0 for weight in recipe.auxiliary.values()) else []
    handles = [layer.router.register_forward_hook(_keep(seen)) for layer in wanted]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def _keep(seen: Seen) -> Callable[[nn.Module, tuple[Tensor, ...], Routing], None]:
    """A forward hook that notes sparse choices and the noise of their router."""

    def hook(router: nn.Module, inputs: tuple[Tensor, ...], routing: Routing) -> None:
        if isinstance(routing, SparseChoice):
            seen.append((routing, float(router.noise_std)))  # type: ignore[arg-type]

    return hook


def _balanced(layer: MoELayer) -> bool:
    return layer.spec.router.kind in BALANCED


def _check(layers: list[MoELayer], recipe: Recipe) -> None:
    """Refuse weights that would do nothing."""
    active = [name for name, weight in recipe.auxiliary.items() if weight > 0]
    if active and not layers:
        raise Refusal(
            f"the auxiliary loss {active[0]!r} acts on token choice and image-level routing, and "
            "this model has neither; leave it out"
        )
    if "load" in active and any(layer.router.noise_std == 0 for layer in layers):
        raise Refusal(
            "the auxiliary loss 'load' needs noise in every router; set the router's noise "
            "above 0, or take 'importance' or 'balance'"
        )
