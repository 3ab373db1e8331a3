"""How does full routing come out of what is stored: weights from logits, masses from weights?

Each function reads through `read(layer, name, images)`; which arrays it asks for depends on the
kind of router and on whether its weights can be recomputed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from routelab.records import Refusal, RouterSpec
from routelab.store.arrays import Rows
from routelab.store.recipe import Float32Array, combine_weights, dequantize, dispatch_weights

Read = Callable[[str, str, Rows], NDArray[Any]]


def logits(read: Read, spec: RouterSpec, images: Rows) -> Float32Array:
    """Router logits of a soft layer, (b, N, S)."""
    _require_soft(spec, "logits")
    if spec.recipe is None:
        raise Refusal(
            f"layer {spec.key} stores its weights, because no recipe makes them from logits; "
            "ask for dispatch and combine"
        )
    return dequantize(read(spec.key, "logits", images), read(spec.key, "logits_scale", images))


def dispatch(read: Read, spec: RouterSpec, images: Rows) -> Float32Array:
    """Dispatch weights, (b, N, S)."""
    _require_soft(spec, "dispatch weights")
    if spec.recipe is None:
        return read(spec.key, "dispatch", images).astype(np.float32)
    return dispatch_weights(logits(read, spec, images), spec.recipe)


def combine(read: Read, spec: RouterSpec, images: Rows) -> Float32Array:
    """Combine weights, (b, N, S)."""
    _require_soft(spec, "combine weights")
    if spec.recipe is None:
        return read(spec.key, "combine", images).astype(np.float32)
    return combine_weights(logits(read, spec, images), spec.recipe)


def choices(read: Read, spec: RouterSpec, images: Rows) -> dict[str, NDArray[Any]]:
    """What the tokens of a sparse layer chose."""
    if spec.soft:
        raise Refusal(
            f"layer {spec.key} routes softly ({spec.kind}) and makes no choices; "
            "ask for dispatch, combine or mass"
        )
    return {name: read(spec.key, name, images) for name in ("expert", "gate", "slot", "probs")}


def mass(read: Read, spec: RouterSpec, images: Rows) -> Float32Array:
    """Token→expert mass A, (b, N, E): combine summed over slots, or the gate where not dropped."""
    if spec.soft:
        return sum_slots(combine(read, spec, images), spec)
    chosen = choices(read, spec, images)
    return by_expert(chosen["expert"], chosen["gate"] * (chosen["slot"] >= 0), spec.experts)


def dispatch_mass(read: Read, spec: RouterSpec, images: Rows) -> Float32Array:
    """Expert→token mass D, (b, N, E): dispatch summed over slots, or 1 for each kept token."""
    if spec.soft:
        return sum_slots(dispatch(read, spec, images), spec)
    chosen = choices(read, spec, images)
    return by_expert(chosen["expert"], chosen["slot"] >= 0, spec.experts)


def sum_slots(weights: Float32Array, spec: RouterSpec) -> Float32Array:
    """Weights over slots (…, S) summed over the slots of each expert, (…, E)."""
    starts = np.searchsorted(spec.expert_of_slot, np.arange(spec.experts))
    return np.add.reduceat(weights, starts, axis=-1)


def by_expert(expert: NDArray[Any], values: NDArray[Any], experts: int) -> Float32Array:
    """Values of choices (b, N, k) laid out by expert, (b, N, E)."""
    out = np.zeros((*expert.shape[:2], experts), np.float32)
    image, token = np.ogrid[: expert.shape[0], : expert.shape[1]]
    for choice in range(expert.shape[2]):
        out[image, token, expert[..., choice]] += values[..., choice]
    return out


def _require_soft(spec: RouterSpec, what: str) -> None:
    if not spec.soft:
        raise Refusal(
            f"layer {spec.key} routes by choice ({spec.kind}) and has no {what}; "
            "ask for choices or mass"
        )
