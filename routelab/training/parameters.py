"""Which parameters learn, which of them decay, and how fast do they go at each update?"""

from __future__ import annotations

import torch
from timm.optim import param_groups_weight_decay  # type: ignore[attr-defined]
from timm.scheduler.cosine_lr import CosineLRScheduler
from torch import nn

from routelab.models import mlp_blocks, moe_layers
from routelab.records import Refusal
from routelab.training.recipe import Recipe, Trains


def choose_trained(model: nn.Module, trains: Trains) -> None:
    """Set `requires_grad` of every parameter; the classifier always learns.

    Raises
    ------
    Refusal
        If only MoE parts should learn and the model has none.
    """
    if trains == "all":
        model.requires_grad_(True)
        return
    if not moe_layers(model):
        raise Refusal(f'trains "{trains}" needs a MoE model, and this one is dense; train all')
    model.requires_grad_(False)
    head: nn.Module = model.get_classifier()  # type: ignore[operator]
    for part in (*_trained_parts(model, trains), head):
        part.requires_grad_(True)


def _trained_parts(model: nn.Module, trains: Trains) -> list[nn.Module]:
    """MoE layers; for a suffix whole blocks from the first MoE block on, and the last norms."""
    layers = moe_layers(model)
    if trains == "moe":
        return list(layers.values())
    blocks = mlp_blocks(model)
    names = list(blocks)
    first = names.index(next(iter(layers)).rsplit(".", 1)[0])
    norms = [getattr(model, name, None) for name in ("norm", "fc_norm")]
    return [blocks[name] for name in names[first:]] + [norm for norm in norms if norm is not None]


def optimizer_of(model: nn.Module, recipe: Recipe) -> torch.optim.AdamW:
    """AdamW; norms, biases, temperatures, and what the model names itself do not decay."""
    own: set[str] = getattr(model, "no_weight_decay", set)()
    stacked_biases = {name for name, _ in model.named_parameters() if name.endswith("bias")}
    groups = param_groups_weight_decay(
        model, recipe.weight_decay, no_weight_decay_list=sorted(set(own) | stacked_biases)
    )
    return torch.optim.AdamW(groups, lr=recipe.learning_rate)


def schedule_of(
    optimizer: torch.optim.Optimizer, recipe: Recipe, updates: int
) -> CosineLRScheduler:
    """Linear rise over the first updates, then a cosine to zero at the last."""
    warmup = min(round(recipe.warmup * updates), updates - 1)
    return CosineLRScheduler(
        optimizer,
        t_initial=updates - warmup,
        warmup_t=warmup,
        warmup_lr_init=recipe.learning_rate / 100,
        warmup_prefix=True,
        t_in_epochs=False,
    )
