"""Which numbers of a layer are flat or high because of how routing is built, whatever it learned?

Rules of the metric catalogue, section 2: load read from dispatch is flat, k = E chooses everything,
a capacity limit flattens load, a collapsed layer is consistent with any label, an image-level gate
has no token term, and the argmax of a near-uniform router is noise.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from routelab.records import RouterSpec
from routelab.store import CaptureStore

NEAR_UNIFORM = 0.05
"""Of the way from 1/E to 1: below it the largest mass of a token is barely above the others."""
COLLAPSED = 0.95
"""Of a layer's mass in one expert: above it every image has nearly the same routing."""
FORCED = 0.01
"""Share of dropped choices above which capacity, not the router, shapes the load."""


def mean_share(store: CaptureStore, layer: str) -> NDArray[np.float64]:
    """Share of the patch tokens' mass that each expert receives, shape (E,); from the totals.

    NaN where no token was routed.
    """
    mass = np.asarray(store.total(layer, "position_mass"), dtype=np.float64).sum(axis=0)
    return mass / mass.sum() if mass.sum() > 0 else np.full(mass.shape, np.nan)


def selection_warnings(spec: RouterSpec) -> Iterator[str]:
    """What the routing family alone makes flat, in the counts of chosen experts."""
    name = spec.key
    if spec.experts == 1:
        yield f"Layer {name} has one expert: shares, entropies and associations say nothing."
    elif spec.kind == "expert_choice":
        yield (
            f"Layer {name} lets every expert choose the same number of tokens, so counts of tokens "
            "are equal by construction; only the gates' weight can differ."
        )
    elif not spec.soft and spec.k == spec.experts:
        yield (
            f"Layer {name} gives every token to all {spec.experts} experts (k = E), so its choices "
            "and co-activation are flat by construction."
        )


def dispatch_warning(store: CaptureStore) -> Iterator[str]:
    """Load cannot be read from dispatch: every slot sums to 1 over tokens."""
    if any(spec.soft for spec in store.layers):
        yield (
            "In soft layers the dispatch mass of an expert is its number of slots by construction, "
            "so work is read from combine weights."
        )


def collapse_warning(store: CaptureStore, spec: RouterSpec) -> Iterator[str]:
    """A layer whose mass goes to one expert agrees with every label."""
    share = mean_share(store, spec.key)
    if spec.experts > 1 and share.max() > COLLAPSED:
        yield (
            f"Layer {spec.key} has collapsed: expert {int(share.argmax())} holds "
            f"{share.max():.1%} of the mass, so consistency and purity near 1 are by construction."
        )


def largest_weight(store: CaptureStore, spec: RouterSpec) -> float:
    """Mean over tokens of the weight of a token's first expert, 1/E where the router is uniform.

    Soft layers: the hardness table. Sparse layers with one choice: the mean gate of kept tokens
    (rows of mass scaled to 1 are 1 whatever the router thinks); NaN for several choices.
    """
    tables = store.tables(spec.key)
    if spec.soft and "hardness" in tables:
        return _mean(store.table(spec.key, "hardness"))
    if spec.k == 1 and {"profile", "dropped"} <= set(tables):
        kept = 1 - _mean(store.table(spec.key, "dropped"))
        return _mean(store.profile(spec.key).sum(axis=1)) / kept if kept > 0 else float("nan")
    return float("nan")


def hardness_warning(store: CaptureStore, spec: RouterSpec) -> Iterator[str]:
    """A near-uniform router has no top expert; what an argmax says of it is noise."""
    largest, floor = largest_weight(store, spec), 1 / spec.experts
    if spec.experts > 1 and largest - floor < NEAR_UNIFORM * (1 - floor):
        yield (
            f"Layer {spec.key} routes almost uniformly (mean largest weight {largest:.3f}, uniform "
            f"{floor:.3f}), so every number that rests on its top expert is read from noise."
        )


def capacity_warning(store: CaptureStore, spec: RouterSpec) -> Iterator[str]:
    """Full buffers drop choices, and the load that is left is flatter than what was wanted."""
    if spec.kind != "topk" or spec.capacity is None or "dropped" not in store.tables(spec.key):
        return
    dropped = _mean(store.table(spec.key, "dropped"))
    if dropped > FORCED:
        yield (
            f"Layer {spec.key} dropped {dropped:.1%} of its choices at capacity {spec.capacity}, "
            "so its load is flatter by construction than what the router wanted."
        )


def tied_warning(spec: RouterSpec) -> Iterator[str]:
    """An image-level gate decides once, so nothing can vary between tokens."""
    if spec.image_level:
        yield (
            f"Layer {spec.key} routes whole images (tied): its token terms, position information "
            "and disagreement are 0 by construction."
        )


def argmax_warnings(store: CaptureStore) -> tuple[str, ...]:
    """All warnings for an analysis that reads the top expert of images or tokens."""
    found: list[str] = []
    for spec in store.layers:
        found += collapse_warning(store, spec)
        found += hardness_warning(store, spec)
    return tuple(found)


def _mean(values: ArrayLike) -> float:
    finite = np.asarray(values, dtype=np.float64)
    finite = finite[np.isfinite(finite)]
    return float(finite.mean()) if finite.size else float("nan")
