"""What does each dimension of each weight of a dense model run along? Named axes.

To narrow a model is to choose indices along its axes; every weight is then gathered along its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from routelab.models import MoELayer, mlp_blocks
from routelab.records import Refusal
from routelab.recycling.blocks import is_convnext

Axes = tuple[str | None, ...]
"""Name of each dimension's axis; None for one that is never cut (kernels, classes, positions)."""

VIT: dict[str, Axes] = {
    r"(cls_token|reg_token|pos_embed)": (None, None, "width"),
    r"patch_embed\.proj\.weight": ("width", None, None, None),
    r"patch_embed\.proj\.bias": ("width",),
    r"blocks\.\d+\.attn\.qkv\.weight": ("qkv", "width"),
    r"blocks\.\d+\.attn\.qkv\.bias": ("qkv",),
    r"blocks\.\d+\.attn\.proj\.weight": ("width", "attention"),
    r"blocks\.\d+\.attn\.proj\.bias": ("width",),
    r"(blocks\.\d+\.norm[12]|norm|norm_pre|fc_norm)\.(weight|bias)": ("width",),
    r"blocks\.\d+\.ls[12]\.gamma": ("width",),
    r"head\.weight": (None, "width"),
    r"head\.bias": (None,),
}
"""Weights of timm's VisionTransformer outside its MLPs."""

CONVNEXT: dict[str, Axes] = {
    r"stem\.0\.weight": ("width.0", None, None, None),
    r"stem\.0\.bias|stem\.1\.(weight|bias)": ("width.0",),
    r"stages\.(\d+)\.downsample\.0\.(weight|bias)": ("width.before",),
    r"stages\.(\d+)\.downsample\.1\.weight": ("width.stage", "width.before", None, None),
    r"stages\.(\d+)\.downsample\.1\.bias": ("width.stage",),
    r"stages\.(\d+)\.blocks\.\d+\.conv_dw\.weight": ("width.stage", None, None, None),
    r"stages\.(\d+)\.blocks\.\d+\.conv_dw\.bias": ("width.stage",),
    r"stages\.(\d+)\.blocks\.\d+\.norm\.(weight|bias)": ("width.stage",),
    r"stages\.(\d+)\.blocks\.\d+\.gamma": ("width.stage",),
    r"(norm_pre|head\.norm)\.(weight|bias)": ("width.last",),
    r"head\.fc\.weight": (None, "width.last"),
    r"head\.fc\.bias": (None,),
}
"""Weights of timm's ConvNeXt outside its MLPs."""


def axes_of(model: nn.Module) -> dict[str, Axes]:
    """Axes of every weight of a dense timm ViT or ConvNeXt, by its name in the state dict.

    ViT: `width`, `qkv`, `attention` (the concatenated heads), `hidden.I` of block I. ConvNeXt:
    `width.S` of stage S and `hidden.I`.

    Raises
    ------
    Refusal
        A weight that is not of these: a model with it cannot be narrowed.
    """
    paths = list(mlp_blocks(model))
    return {
        name: _mlp_axes(name, paths, model) or _axes(name, model, weight.ndim)
        for name, weight in model.state_dict().items()
    }


def width_axis(model: nn.Module, path: str) -> str:
    """Name of the axis of the channels at a block of this dotted path."""
    return f"width.{path.split('.')[1]}" if is_convnext(model) else "width"


def widths_of(model: nn.Module) -> dict[str, int]:
    """Channels along each width axis: `width`, or `width.0` … of a ConvNeXt's stages."""
    if is_convnext(model):
        return {width_axis(model, name): _channels(b) for name, b in mlp_blocks(model).items()}
    vit: Any = model
    return {"width": int(vit.embed_dim)}


def gathered(weight: Tensor, axes: Axes, index: Mapping[str, NDArray[np.int64]]) -> Tensor:
    """The weight at the chosen indices of each of its axes; an axis without indices stays whole."""
    for dim, axis in enumerate(axes):
        if axis is not None and axis in index:
            chosen = torch.from_numpy(index[axis]).to(weight.device)
            weight = weight.index_select(dim, chosen)
    return weight


def _channels(block: Any) -> int:
    """Channels in and out of a block's MLP, dense or MoE."""
    mlp = block.mlp
    return int(mlp.width if isinstance(mlp, MoELayer) else mlp.fc1.in_features)


def _mlp_axes(name: str, paths: list[str], model: nn.Module) -> Axes | None:
    """Axes of an MLP's weight; None for any other."""
    found = re.fullmatch(r"(.+)\.mlp\.(fc[12])\.(weight|bias)", name)
    if found is None or found[1] not in paths:
        return None
    width, hidden = width_axis(model, found[1]), f"hidden.{paths.index(found[1])}"
    outputs, inputs = (hidden, width) if found[2] == "fc1" else (width, hidden)
    return (outputs, inputs) if found[3] == "weight" else (outputs,)


def _axes(name: str, model: nn.Module, ndim: int) -> Axes:
    convnext = is_convnext(model)
    for pattern, axes in (CONVNEXT if convnext else VIT).items():
        found = re.fullmatch(pattern, name)
        if found is not None and len(axes) == ndim:
            stage = int(found[1]) if convnext and r"(\d+)" in pattern else 0
            last = len(widths_of(model)) - 1 if convnext else 0
            names = {
                "width.stage": f"width.{stage}",
                "width.before": f"width.{max(stage - 1, 0)}",
                "width.last": f"width.{last}",
            }
            return tuple(None if axis is None else names.get(axis, axis) for axis in axes)
    raise Refusal(
        f"the weight {name} of {type(model).__name__} cannot be cut to fewer channels; "
        "keep the width, or take a plain ViT, DeiT, DINOv2 or ConvNeXt"
    )
