"""How do router logits become int16 without losing the weights that come from them?

Fixed point with one scale an image: `logits ≈ integers · scale`, `scale = max|logits| / 32767`.
The largest error is half a step, so a recomputed softmax weight is off by about one step, relative;
half the bytes of two float16 matrices, and more exact. An image's bytes depend on its own logits
alone, never on the batch that it came in.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

STEPS = 32767


class FixedPoint(NamedTuple):
    """Logits as they lie in the store: `integers (B, N, S)` int16 and `scale (B,)` float32."""

    integers: Tensor
    scale: Tensor


def quantize(logits: Tensor) -> FixedPoint:
    """Round logits `(B, N, S)` to int16, half to even, with one scale an image.

    An image whose logits are all 0 has scale 0. An image with a NaN or an infinite logit has a
    scale that is not finite.
    """
    flat = logits.flatten(1)
    scale = torch.maximum(flat.amax(dim=1), -flat.amin(dim=1)).float() / STEPS
    step = torch.where(scale > 0, scale, torch.ones_like(scale))
    integers = (logits / step[:, None, None]).round_().to(torch.int16)
    return FixedPoint(integers, scale)


def dequantize(stored: FixedPoint) -> Tensor:
    """The logits that a reader sees: `integers · scale`, float32 `(B, N, S)`."""
    return stored.integers.float() * stored.scale[:, None, None]
