"""What is minimised? Cross entropy, and what keeps routers from collapsing; each part by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from routelab.models import MoELayer, Routing, SparseChoice, auxiliary_losses, moe_layers
from routelab.records import Refusal
from routelab.training.contrastive import contrastive_terms
from routelab.training.ranks import ALONE, Ranks
from routelab.training.recipe import Recipe

BALANCED = ("topk", "image")
"""Routers that auxiliary losses act on; expert choice is balanced by construction."""


@dataclass
class Seen:
    """What a forward pass left behind for the losses: sparse choices, and pooled features."""

    choices: list[tuple[SparseChoice, float]] = field(default_factory=list)
    features: list[Tensor] = field(default_factory=list)

    def clear(self) -> None:
        """Forget the last batch."""
        self.choices.clear()
        self.features.clear()


class Loss(NamedTuple):
    """The weighted sum that is minimised, and its parts without their weights."""

    total: Tensor
    parts: dict[str, Tensor]


def loss_of(
    logits: Tensor, targets: Tensor, seen: Seen, recipe: Recipe, ranks: Ranks = ALONE
) -> Loss:
    """Loss of one batch over all processes; the same number on each of them.

    Parameters
    ----------
    logits
        Class logits `(B, C)` of this process's images.
    targets
        Classes `(B,)`, or shares of classes `(B, C)` that are smoothed already.
    seen
        What routers and classifier saw of these images.
    recipe
        Weights of the parts.
    ranks
        The processes that share the batch. The contrastive loss pairs images within a process,
        every other part is that of the global batch.
    """
    smoothing = recipe.label_smoothing if targets.ndim == 1 else 0.0
    each = cross_entropy(logits.float(), targets, label_smoothing=smoothing, reduction="none")
    parts = {"cross_entropy": _mean(each, ranks)}
    weights: dict[str, float] = {str(name): w for name, w in recipe.auxiliary.items()}
    parts |= auxiliary_losses(seen.choices, weights, total=ranks.total)
    if recipe.contrastive.weight > 0:
        terms = contrastive_terms(seen.features[-1], targets, recipe.contrastive.temperature)
        parts["contrastive"] = _mean(terms, ranks)
        weights["contrastive"] = recipe.contrastive.weight
    weights["cross_entropy"] = 1.0
    total = torch.stack([weights[name] * part for name, part in parts.items()]).sum()
    return Loss(total, parts)


def _mean(each: Tensor, ranks: Ranks) -> Tensor:
    """Mean over the images of all processes; 0 without any."""
    number = ranks.total(each.new_tensor(float(len(each))))
    return ranks.total(each.sum()) / number.clamp(min=1)


@contextmanager
def watched_routers(model: nn.Module, recipe: Recipe) -> Iterator[Seen]:
    """While open, what each forward pass leaves for the losses; clear it yourself."""
    seen = Seen()
    layers = [layer for layer in moe_layers(model).values() if _balanced(layer)]
    wanted = layers if any(weight > 0 for weight in recipe.auxiliary.values()) else []
    handles = [layer.router.register_forward_hook(_keep_choice(seen)) for layer in wanted]
    if recipe.contrastive.weight > 0:
        head: nn.Module = model.get_classifier()  # type: ignore[operator]
        handles.append(
            head.register_forward_pre_hook(lambda _, inputs: seen.features.append(inputs[0]))
        )
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def _keep_choice(seen: Seen) -> Callable[[nn.Module, Any, Routing], None]:
    """A forward hook that notes sparse choices and the noise of their router."""

    def hook(router: nn.Module, inputs: Any, routing: Routing) -> None:
        if isinstance(routing, SparseChoice):
            seen.choices.append((routing, float(router.noise_std)))  # type: ignore[arg-type]

    return hook


def _balanced(layer: MoELayer) -> bool:
    return layer.spec.router.kind in BALANCED


def check_losses(model: nn.Module, recipe: Recipe) -> None:
    """Refuse weights of losses that would do nothing, as this model's routers do not have them."""
    layers = [layer for layer in moe_layers(model).values() if _balanced(layer)]
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
