"""How do stored logits become the weights that the layer used? NumPy alone, no torch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from routelab.records import SoftRecipe

Float32Array = NDArray[np.float32]

STEPS = 32767
"""Largest int16: logits are stored in steps of max|logit| / 32767 of their image."""


def quantize(logits: NDArray[Any]) -> tuple[NDArray[np.int16], Float32Array]:
    """Logits `(B, N, S)` in int16 fixed point, and one scale an image `(B,)`.

    The rounding error is at most half a step, so a recomputed softmax weight is off by about one
    step, relative. An image whose logits are all 0 has scale 0.
    """
    scale = (np.abs(logits).max(axis=(1, 2)) / STEPS).astype(np.float32)
    step = np.where(scale > 0, scale, np.float32(1))[:, None, None]
    codes = np.rint(logits / step).clip(-STEPS, STEPS).astype(np.int16)
    return codes, scale


def dequantize(codes: NDArray[np.int16], scale: Float32Array) -> Float32Array:
    """The logits that a reader sees, `codes · scale`, `(B, N, S)` float32."""
    return codes.astype(np.float32) * scale[:, None, None]


def dispatch_weights(logits: Float32Array, recipe: SoftRecipe) -> Float32Array:
    """Each slot's weights over tokens, `(B, N, S)`; columns sum to 1."""
    return softmax(logits / np.float32(recipe.dispatch_temperature), axis=1)


def combine_weights(logits: Float32Array, recipe: SoftRecipe) -> Float32Array:
    """Each token's weights over slots, `(B, N, S)`; rows sum to 1."""
    scaled = logits / np.float32(recipe.combine_temperature)
    if recipe.combine == "entmax15":
        return entmax15(scaled)
    return softmax(scaled, axis=2)


def softmax(scores: Float32Array, *, axis: int) -> Float32Array:
    """exp(z) / Σ exp(z) along one axis, safe for large scores."""
    weights = np.exp(scores - scores.max(axis=axis, keepdims=True))
    weights /= weights.sum(axis=axis, keepdims=True)
    return weights


def entmax15(scores: NDArray[Any]) -> Float32Array:
    """Exact 1.5-entmax over the last axis, by sorting; many weights are exactly 0.

    p = max(z/2 − τ, 0)² with the threshold τ for which Σ p = 1 (Peters, Niculae and Martins 2019,
    arXiv 1905.05702, algorithm 2). Computed in float64.
    """
    half = scores.astype(np.float64) / 2
    half -= half.max(axis=-1, keepdims=True)
    descending = -np.sort(-half, axis=-1)
    rank = np.arange(1, half.shape[-1] + 1)
    mean = np.cumsum(descending, axis=-1) / rank
    mean_square = np.cumsum(descending**2, axis=-1) / rank
    spread = rank * (mean_square - mean**2)
    thresholds = mean - np.sqrt(np.clip((1 - spread) / rank, 0, None))
    support = (thresholds <= descending).sum(axis=-1, keepdims=True)
    threshold = np.take_along_axis(thresholds, support - 1, axis=-1)
    return (np.clip(half - threshold, 0, None) ** 2).astype(np.float32)
