"""Where does a training start? From nothing, from a checkpoint, or as a MoE model made of one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from routelab.data import open_data
from routelab.models import build, copy_dense, load_checkpoint
from routelab.records import ModelCard, MoESpec, Refusal, Transform
from routelab.training.config import DataChoice, RunConfig, Start
from routelab.training.prompts import add_prompts


def start_dense(
    architecture: str,
    classes: tuple[str, ...],
    transform: Transform,
    *,
    arguments: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> tuple[nn.Module, ModelCard]:
    """A freshly initialised dense model of timm, and its card.

    Raises
    ------
    Refusal
        Unknown architecture or argument.
    """
    card = ModelCard(
        architecture=architecture,
        arguments=dict(arguments or {}),
        classes=classes,
        transform=transform,
        source="trained from scratch",
    )
    return build(card, seed=seed), card


def start_moe(
    dense: nn.Module, card: ModelCard, spec: MoESpec, *, seed: int = 0
) -> tuple[nn.Module, ModelCard]:
    """A MoE model whose weights are copied from a dense one, and its card.

    Raises
    ------
    Refusal
        If the model is a MoE model already, or the spec does not fit it.
    """
    if card.spec is not None:
        raise Refusal("the checkpoint is a MoE model already; give a dense one to copy from")
    origin = f"copied from {card.architecture}"
    origin += f" with weights {card.sha256[:12]}" if card.sha256 else ""
    update = {"spec": spec, "source": origin, "metrics": {}, "sha256": ""}
    moe_card = card.model_copy(update=update)
    model = build(moe_card, seed=seed)
    copy_dense(dense, model)
    return model, moe_card


def start_run(config: RunConfig) -> tuple[nn.Module, ModelCard]:
    """The model that a run begins with, and its card.

    Raises
    ------
    Refusal
        Nothing to start from, a checkpoint of another architecture, or what the parts refuse.
    """
    seed = config.recipe.seed
    if not config.data.source:
        raise Refusal("no images to train on; give --data, or source in the section data")
    if config.start.checkpoint:
        model, card = _from_checkpoint(config.start, config.data, seed)
    elif config.start.architecture:
        transform = config.start.transform
        classes = open_data(config.data.source, transform, split=config.data.split, limit=1).classes
        model, card = start_dense(
            config.start.architecture,
            classes,
            transform,
            arguments=config.start.arguments,
            seed=seed,
        )
    else:
        raise Refusal("nothing to start from; give a checkpoint, or --architecture of timm")
    if config.moe is not None:
        model, card = start_moe(model, card, config.moe, seed=seed)
    if config.recipe.trains == "prompts":
        model, card = add_prompts(model, card, config.recipe.prompts, seed=seed)
    return model, card


def _from_checkpoint(start: Start, data: DataChoice, seed: int) -> tuple[nn.Module, ModelCard]:
    """A checkpoint's model, with a fresh classifier if one is asked for."""
    model, card = load_checkpoint(Path(start.checkpoint))
    if start.architecture and start.architecture != card.architecture:
        raise Refusal(
            f"checkpoint {start.checkpoint} is a {card.architecture}, not the "
            f"{start.architecture} that start.architecture asks for; change one of the two"
        )
    if not start.new_head:
        return model, card
    classes = open_data(data.source, card.transform, split=data.split, limit=1).classes
    return with_new_head(model, card, classes, seed=seed)


@torch.no_grad()
def with_new_head(
    model: nn.Module, card: ModelCard, classes: tuple[str, ...], *, seed: int = 0
) -> tuple[nn.Module, ModelCard]:
    """A copy of a model with a fresh classifier for other classes, and its card."""
    update: dict[str, Any] = {"classes": classes, "metrics": {}, "sha256": ""}
    new_card = card.model_copy(update=update)
    target = build(new_card, seed=seed)
    head: nn.Module = target.get_classifier()  # type: ignore[operator]
    own = {id(parameter) for parameter in head.parameters()}
    weights = model.state_dict()
    fresh = {name: p for name, p in target.named_parameters() if id(p) in own}
    target.load_state_dict(weights | fresh)
    return target, new_card
