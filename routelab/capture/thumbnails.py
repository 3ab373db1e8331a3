"""What did the model look at, small enough to keep beside the routing?"""

from __future__ import annotations

import torch
from torch import Tensor

from routelab.records import Transform

SIDE = 112
"""Largest side of a thumbnail, pixels."""


def thumbnails(pixels: Tensor, transform: Transform) -> Tensor:
    """Undo the normalisation of `pixels (B, c, h, w)` and shrink: uint8 `(B, side, side, 3)`."""
    shape = (1, pixels.shape[1], 1, 1)
    mean = torch.tensor(transform.mean, device=pixels.device).expand(pixels.shape[1]).view(shape)
    std = torch.tensor(transform.std, device=pixels.device).expand(pixels.shape[1]).view(shape)
    height, width = pixels.shape[-2:]
    if max(height, width) > SIDE:
        ratio = SIDE / max(height, width)
        size = (round(height * ratio), round(width * ratio))
        pixels = torch.nn.functional.interpolate(pixels.float(), size=size, mode="area")
    levels = (pixels.float() * std + mean).mul_(255).round_().clamp_(0, 255).to(torch.uint8)
    return levels.expand(-1, 3, -1, -1).movedim(1, -1)
