"""How strong is the gradient that reaches the router, the experts, and everything else?"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from routelab.models import moe_layers

PARTS = ("router", "experts", "rest")


class GradientNorms:
    """Norms of the gradient by part; shared experts count as experts."""

    def __init__(self, model: nn.Module) -> None:
        self.parts: dict[str, list[nn.Parameter]] = {part: [] for part in PARTS}
        layers = moe_layers(model)
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                self.parts[_part(name, tuple(layers))].append(parameter)
        self.parts = {part: chosen for part, chosen in self.parts.items() if chosen}

    def measure(self) -> Tensor:
        """Norm of each part in the order of `names`; their squares sum to the whole's."""
        return torch.stack([_norm(parameters) for parameters in self.parts.values()])

    @property
    def names(self) -> tuple[str, ...]:
        """Parts that learn."""
        return tuple(self.parts)

    def clip(self, whole: Tensor, most: float | None) -> None:
        """Scale all gradients down where their norm `whole` is over the most that is allowed."""
        if most is None:
            return
        everything = [parameter for part in self.parts.values() for parameter in part]
        nn.utils.clip_grads_with_norm_(everything, most, whole)


def _part(name: str, layers: tuple[str, ...]) -> str:
    """The part of a parameter, by its name."""
    for path in layers:
        if name.startswith(f"{path}.router."):
            return "router"
        if name.startswith(f"{path}."):
            return "experts"
    return "rest"


def _norm(parameters: list[nn.Parameter]) -> Tensor:
    """Norm of the gradients of some parameters; 0 where none has one."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    if not gradients:
        return parameters[0].new_zeros(())
    return nn.utils.get_total_norm(gradients)
