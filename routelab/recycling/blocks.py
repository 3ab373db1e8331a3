"""What is there to recycle in a dense model? Its plain two-layer MLPs, block by block."""

from __future__ import annotations

from typing import NamedTuple

from torch import nn

from routelab.models import MoELayer, mlp_blocks
from routelab.records import Refusal


class DenseMlp(NamedTuple):
    """One block's MLP: its number, its dotted path, and the modules that hooks and weights need."""

    depth: int
    path: str
    mlp: nn.Module
    fc1: nn.Linear
    act: nn.Module
    fc2: nn.Linear

    @property
    def width(self) -> int:
        """Channels in and out."""
        return self.fc1.in_features

    @property
    def hidden(self) -> int:
        """Hidden neurons."""
        return self.fc1.out_features


def dense_mlps(model: nn.Module) -> list[DenseMlp]:
    """The MLPs of a dense model in depth order.

    Raises
    ------
    Refusal
        A MoE layer among them, or MLPs with a gate or a norm inside, which experts do not have.
    """
    return [
        _dense_mlp(depth, name, block.get_submodule("mlp"))
        for depth, (name, block) in enumerate(mlp_blocks(model).items())
    ]


def exact_gelu(mlp: DenseMlp) -> bool:
    """True if the MLP's activation is the experts' own, the exact GELU."""
    return isinstance(mlp.act, nn.GELU) and mlp.act.approximate == "none"


def is_convnext(model: nn.Module) -> bool:
    """True for timm's ConvNeXt, whose width changes from stage to stage."""
    return hasattr(model, "stages") and hasattr(model, "stem")


def _dense_mlp(depth: int, name: str, mlp: nn.Module) -> DenseMlp:
    if isinstance(mlp, MoELayer):
        raise Refusal(f"block {depth} is a MoE layer already; recycle a dense checkpoint")
    fc1, fc2, act = (getattr(mlp, part, None) for part in ("fc1", "fc2", "act"))
    inside = (getattr(mlp, part, None) for part in ("norm", "grn"))
    if (
        not isinstance(fc1, nn.Linear)
        or not isinstance(fc2, nn.Linear)
        or not isinstance(act, nn.Module)
        or not all(part is None or isinstance(part, nn.Identity) for part in inside)
        or fc2.in_features != fc1.out_features
    ):
        raise Refusal(
            f"the MLP of block {depth} is a {type(mlp).__name__} with more in it than two linear "
            "layers and an activation; its neurons cannot stand alone in an expert"
        )
    return DenseMlp(depth, f"{name}.mlp", mlp, fc1, act, fc2)
