"""How does each kind of router decide, given scores? The planted routing, as a store keeps it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from routelab.records import RouterSpec
from routelab.store.recipe import dequantize, entmax15, quantize

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Decision:
    """The routing of b images by one layer.

    Attributes
    ----------
    mass
        Token→expert mass A, shape (b, N, E).
    kept
        Expert→token mass D, shape (b, N, E): dispatch weight, or 1 where an expert kept a token.
    stored
        The full arrays of the store.
    dispatch
        Soft routing only: each slot's weights over tokens, shape (b, N, S).
    combine
        Soft routing only: each token's weights over slots, shape (b, N, S).
    """

    mass: FloatArray
    kept: FloatArray
    stored: dict[str, NDArray[Any]]
    dispatch: FloatArray | None = field(default=None)
    combine: FloatArray | None = field(default=None)


def decide(scores: FloatArray, spec: RouterSpec, rng: np.random.Generator) -> Decision:
    """Route tokens with these scores, shape (b, N, E), as the layer's kind of router does."""
    if not spec.soft:
        return _choose(scores, spec)
    slots = scores[..., spec.expert_of_slot]
    codes, scale = quantize(slots + rng.normal(0, 0.05, slots.shape))
    logits = dequantize(codes, scale).astype(np.float64)
    dispatch = softmax(logits, axis=1)
    if spec.kind == "sphero":
        combine = entmax15(logits).astype(np.float64)
    else:
        combine = softmax(logits, axis=2)
    stored: dict[str, NDArray[Any]] = {"logits": codes, "logits_scale": scale}
    if spec.recipe is None:  # the planted fault: what normalises over tokens is called combine
        dispatch, combine = combine, dispatch
        stored = {"dispatch": dispatch.astype(np.float16), "combine": combine.astype(np.float16)}
    expert_of_slot = np.eye(spec.experts)[spec.expert_of_slot]
    return Decision(combine @ expert_of_slot, dispatch @ expert_of_slot, stored, dispatch, combine)


def softmax(scores: FloatArray, *, axis: int) -> FloatArray:
    """exp(z) / Σ exp(z) along an axis."""
    weights: FloatArray = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return weights / weights.sum(axis=axis, keepdims=True)


def _choose(scores: FloatArray, spec: RouterSpec) -> Decision:
    """Token choice: each token takes its k best experts, in order, while they have room."""
    choices = spec.k or 1
    probs = softmax(scores, axis=2)
    expert = np.argsort(-probs, axis=2, kind="stable")[..., :choices]
    gate = np.take_along_axis(probs, expert, axis=2)
    slot = _places(expert, spec)
    kept = np.zeros_like(probs)
    np.put_along_axis(kept, expert, (slot >= 0).astype(np.float64), axis=2)
    small = np.uint8 if spec.experts <= 256 else np.uint16
    stored: dict[str, NDArray[Any]] = {
        "expert": expert.astype(small),
        "gate": gate.astype(np.float32),
        "slot": slot.astype(np.int32),
        "probs": probs.astype(np.float16),
    }
    return Decision(probs.astype(np.float32) * kept, kept, stored)


def _places(expert: NDArray[np.int64], spec: RouterSpec) -> NDArray[np.int64]:
    """Place of each choice in its expert's buffer, shape (b, N, k); -1 where the buffer is full.

    All first choices queue before all second choices, tokens in order.
    """
    images, tokens, choices = expert.shape
    queue = expert.transpose(0, 2, 1).reshape(images, choices * tokens)
    wanted = queue[..., None] == np.arange(spec.experts)
    before = np.cumsum(wanted, axis=1) - 1
    place = np.take_along_axis(before, queue[..., None], axis=2)[..., 0]
    room = math.inf if spec.capacity is None else spec.capacity
    place = np.where(place < room, place, -1)
    return place.reshape(images, choices, tokens).transpose(0, 2, 1)
