"""How does a frozen network learn through few numbers? LoRA on chosen linear maps.

A thin adapter of our own rather than `peft`: it keeps timm's module names, and merges exactly into
the plain checkpoint that every other command reads (the tests compare it with peft).
"""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor, nn

from routelab.models import mlp_blocks
from routelab.records import Refusal
from routelab.training.recipe import LowRank


class LowRankLinear(nn.Module):
    """y = W x + b + (alpha / rank) · B A x, W and b frozen, A random and B zero at the start.

    Hu et al. 2021 (arXiv 2106.09685), section 4.1.
    """

    def __init__(self, base: nn.Linear, choice: LowRank) -> None:
        super().__init__()
        self.base, self.scale = base, choice.alpha / choice.rank
        weight = base.weight
        self.down = nn.Parameter(weight.new_empty(choice.rank, base.in_features))
        self.up = nn.Parameter(weight.new_zeros(base.out_features, choice.rank))
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))

    def forward(self, inputs: Tensor) -> Tensor:
        """Outputs `(…, out)` of inputs `(…, in)`."""
        update = nn.functional.linear(nn.functional.linear(inputs, self.down), self.up)
        outputs: Tensor = self.base(inputs) + self.scale * update
        return outputs

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """The plain linear map that does the same."""
        self.base.weight += self.scale * (self.up @ self.down)
        return self.base


def add_adapters(model: nn.Module, choice: LowRank) -> int:
    """Put a low-rank update beside each linear map of the blocks with one of these names.

    Raises
    ------
    Refusal
        If no block has such a map.
    """
    found = 0
    for block in mlp_blocks(model).values():
        for path, module in list(block.named_modules()):
            if isinstance(module, nn.Linear) and path.split(".")[-1] in choice.targets:
                _replace(block, path, LowRankLinear(module, choice))
                found += 1
    if not found:
        raise Refusal(
            f"no block has a linear map named {' or '.join(choice.targets)} for LoRA; "
            "name others in lora.targets, for example fc1"
        )
    return found


def merge_adapters(model: nn.Module) -> nn.Module:
    """Merge every adapter into its map, in place; the model has its plain names again."""
    for path, module in list(model.named_modules()):
        if isinstance(module, LowRankLinear):
            _replace(model, path, module.merged())
    return model


def plain_copy(model: nn.Module) -> nn.Module:
    """The model itself, or a copy with its adapters merged if it has any."""
    if not any(isinstance(module, LowRankLinear) for module in model.modules()):
        return model
    return merge_adapters(copy.deepcopy(model))


def _replace(root: nn.Module, path: str, module: nn.Module) -> None:
    parent, _, name = path.rpartition(".")
    setattr(root.get_submodule(parent), name, module)
