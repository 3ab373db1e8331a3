"""How are whole blocks left out in training? Stochastic depth that rises from block to block."""

from __future__ import annotations

from timm.layers.drop import DropPath
from torch import nn

from routelab.models import mlp_blocks

PLACES = ("drop_path", "drop_path1", "drop_path2")
"""Where timm's blocks keep their stochastic depth."""


def set_drop_path(model: nn.Module, last: float) -> None:
    """Let each block's branches skip a share of images: 0 in the first block, `last` in the last.

    Nothing changes at evaluation, and no weight is added (Huang et al. 2016, arXiv 1603.09382).
    """
    if last == 0:
        return
    blocks = list(mlp_blocks(model).values())
    for number, block in enumerate(blocks):
        for place in PLACES:
            if hasattr(block, place):
                setattr(block, place, DropPath(last * number / max(len(blocks) - 1, 1)))
