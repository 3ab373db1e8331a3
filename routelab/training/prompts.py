"""How does a frozen network learn through its input? Prompt tokens beside the patches.

Visual prompt tuning, the shallow kind (Jia et al. 2022, arXiv 2203.12119, eq. 4): learned tokens
enter the first block after the class token. timm has such tokens under another name, registers, so
a prompted model is a plain timm model and needs nothing special to be loaded or captured.
"""

from __future__ import annotations

import torch
from torch import nn

from routelab.models import build
from routelab.records import ModelCard, Refusal


@torch.no_grad()
def add_prompts(
    model: nn.Module, card: ModelCard, count: int, *, seed: int = 0
) -> tuple[nn.Module, ModelCard]:
    """A copy of a vision transformer with `count` prompt tokens, and its card.

    Raises
    ------
    Refusal
        If the model takes no such tokens, or has some already.
    """
    if getattr(model, "reg_token", None) is not None:
        raise Refusal("the model has register tokens already, which prompts would replace")
    arguments = {**card.arguments, "reg_tokens": count}
    prompted = card.model_copy(update={"arguments": arguments, "metrics": {}, "sha256": ""})
    try:
        target = build(prompted, seed=seed)
    except Refusal as refusal:
        raise Refusal(
            f"{card.architecture} takes no prompt tokens; take a ViT of timm"
        ) from refusal
    weights = model.state_dict()
    place = weights.get("pos_embed")
    fresh = target.state_dict()
    if place is not None and place.shape != fresh["pos_embed"].shape:
        before = fresh["pos_embed"].shape[1] - place.shape[1]
        first = place.shape[1] - _patches(model)
        blank = place.new_zeros(1, before, place.shape[2])  # a prompt learns its own place
        weights["pos_embed"] = torch.cat([place[:, :first], blank, place[:, first:]], dim=1)
    weights["reg_token"] = fresh["reg_token"]
    target.load_state_dict(weights)
    return target, prompted


def _patches(model: nn.Module) -> int:
    """Patch tokens of one image."""
    return int(model.get_submodule("patch_embed").num_patches)  # type: ignore[arg-type]
