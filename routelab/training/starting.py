"""Where does a training start? From nothing, or as a MoE model made of a trained dense one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from routelab.models import build, copy_dense
from routelab.records import ModelCard, MoESpec, Refusal, Transform


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
