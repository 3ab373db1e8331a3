"""Which parameters learn, which of them decay, and how fast do they go at each update?"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch
from timm.models import group_parameters
from timm.scheduler.cosine_lr import CosineLRScheduler
from torch import nn

from routelab.models import mlp_blocks, moe_layers
from routelab.records import Refusal
from routelab.training.adapters import add_adapters
from routelab.training.recipe import Recipe, Trains


def prepare(model: nn.Module, recipe: Recipe) -> None:
    """Choose what learns, and add the adapters that learn in its place."""
    choose_trained(model, recipe.trains)
    if recipe.trains == "lora":
        add_adapters(model, recipe.lora)


def choose_trained(model: nn.Module, trains: Trains) -> None:
    """Set `requires_grad` of every parameter; the classifier always learns.

    Raises
    ------
    Refusal
        If only MoE parts should learn and the model has none, or prompts that it does not have.
    """
    if trains == "all":
        model.requires_grad_(True)
        return
    if trains in ("suffix", "moe", "router") and not moe_layers(model):
        raise Refusal(f'trains "{trains}" needs a MoE model, and this one is dense; train all')
    model.requires_grad_(False)
    head: nn.Module = model.get_classifier()  # type: ignore[operator]
    for part in (*_trained_parts(model, trains), head):
        part.requires_grad_(True)
    if trains == "prompts":
        _prompts_of(model).requires_grad_(True)


def _prompts_of(model: nn.Module) -> nn.Parameter:
    """The prompt tokens, which timm calls register tokens."""
    tokens = getattr(model, "reg_token", None)
    if not isinstance(tokens, nn.Parameter):
        raise Refusal(
            'trains "prompts" needs a model with prompt tokens; make one with '
            "routelab.training.add_prompts"
        )
    return tokens


def _trained_parts(model: nn.Module, trains: Trains) -> list[nn.Module]:
    """MoE layers or their routers; for a suffix whole blocks from the first MoE block on."""
    layers = moe_layers(model)
    if trains == "router":
        return [layer.router for layer in layers.values()]
    if trains == "moe":
        return list(layers.values())
    if trains != "suffix":
        return []
    blocks = mlp_blocks(model)
    names = list(blocks)
    first = names.index(next(iter(layers)).rsplit(".", 1)[0])
    norms = [getattr(model, name, None) for name in ("norm", "fc_norm")]
    return [blocks[name] for name in names[first:]] + [norm for norm in norms if norm is not None]


def optimizer_of(model: nn.Module, recipe: Recipe) -> torch.optim.AdamW:
    """AdamW; norms, biases, temperatures, and what the model names itself do not decay."""
    scales = rate_scales(model, recipe.layer_decay)
    own: set[str] = set(getattr(model, "no_weight_decay", set)())
    groups: dict[tuple[bool, float], list[nn.Parameter]] = defaultdict(list)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            still = parameter.ndim <= 1 or name.endswith("bias") or name in own
            groups[not still, scales[name]].append(parameter)
    chosen: list[dict[str, Any]] = [
        {
            "params": parameters,
            "weight_decay": recipe.weight_decay if decays else 0.0,
            "lr_scale": scale,
        }
        for (decays, scale), parameters in sorted(groups.items(), key=lambda group: group[0])
    ]
    return torch.optim.AdamW(chosen, lr=recipe.learning_rate, betas=recipe.betas)


def rate_scales(model: nn.Module, layer_decay: float) -> dict[str, float]:
    """Factor of the learning rate of each parameter, by name: layer_decay ^ (blocks above it).

    Routers, experts and the norm that feeds them keep the full rate, as in MoE Jetpack's released
    recipe (`get_layer_depth`): they are new, and the body below is not.
    """
    names = [name for name, _ in model.named_parameters()]
    if layer_decay == 1:
        return dict.fromkeys(names, 1.0)
    matcher: Any = getattr(model, "group_matcher", None)
    if matcher is None:
        raise Refusal(f"{type(model).__name__} names no layers for layer_decay; set it to 1")
    depth = group_parameters(model, matcher(coarse=False), reverse=True)
    top = max(depth.values())
    blocks = [path.rsplit(".", 1)[0] for path in moe_layers(model)]
    new = tuple(f"{block}.{part}." for block in blocks for part in ("mlp", "norm2"))
    return {
        name: 1.0 if name.startswith(new) else layer_decay ** (top - depth.get(name, top))
        for name in names
    }


def schedule_of(
    optimizer: torch.optim.Optimizer, recipe: Recipe, updates: int
) -> CosineLRScheduler:
    """Linear rise over the first updates, then a cosine; the rate follows from the update alone."""
    warmup = min(round(recipe.warmup * updates), updates - 1)
    return CosineLRScheduler(
        optimizer,
        t_initial=updates - warmup,
        warmup_t=warmup,
        warmup_lr_init=recipe.learning_rate * recipe.warmup_start,
        lr_min=recipe.learning_rate * recipe.final_rate,
        warmup_prefix=True,
        t_in_epochs=False,
    )
