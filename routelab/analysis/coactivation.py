"""Which experts work on the same tokens, more than their loads alone would have it?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from routelab import metrics
from routelab.analysis.axes import layer_names, stack
from routelab.analysis.construction import collapse_warning, mean_share, selection_warnings
from routelab.analysis.findings import Findings, Kind
from routelab.analysis.question import asks
from routelab.records import Result, RouterSpec
from routelab.store import CaptureStore

FloatArray = NDArray[np.float64]
PAIR = ("layer", "expert", "expert2")
KINDS = {
    "matrix": Kind(
        "of expert's work on tokens, the share that expert2 has in the same tokens", PAIR
    ),
    "lift": Kind("co-activation over what independent experts of these loads would have", PAIR),
    "jaccard": Kind("tokens of both / tokens of either; sparse layers only", PAIR),
}

ALIVE = 0.1
"""Of an even share: pairs with an expert below it are left out of the summary."""


@asks("Which experts work on the same tokens?", level="totals")
def run(store: CaptureStore, *, seed: int = 0, permutations: int = 999) -> Result:
    """Co-activation within each layer, from the totals over all patch tokens (catalogue P1).

    Sparse layers count tokens that both experts kept; soft layers sum products of mass. The
    totals hold no images apart: there is no interval, and `seed` and `permutations` play no part.
    """
    found = Findings(layer_names(store), KINDS)
    for spec in store.layers:
        _note_layer(found, store, spec)
    return Result(
        name="coactivation",
        quantities=found.quantities(),
        coords={"layer": layer_names(store)},
        n=store.committed,
        summary=_summary(found, store),
        warnings=_warnings(store),
    )


def _note_layer(found: Findings, store: CaptureStore, spec: RouterSpec) -> None:
    together = np.asarray(store.total(spec.key, "coactivation"), dtype=np.float64)
    reason = _nothing(spec, together)
    if reason:
        for name in KINDS:
            found.note(spec.key, name, np.full(together.shape, np.nan), reason=reason)
        return
    tokens = float(np.asarray(store.total(spec.key, "tokens")))
    work = together.sum(axis=1) if spec.soft else together.diagonal()
    matrix = metrics.coactivation_matrix(together, work)
    found.note(spec.key, "matrix", matrix, chance=_chance(spec, work, tokens))
    found.note(spec.key, "lift", metrics.coactivation_lift(together, work, tokens), chance=1)
    if not spec.soft:
        found.note(spec.key, "jaccard", metrics.coactivation_jaccard(together))


def _nothing(spec: RouterSpec, together: FloatArray) -> str:
    """Why a layer has no co-activation; empty where it has."""
    if spec.experts == 1:
        return "one expert"
    if not spec.soft and spec.k == 1:
        return "k = 1: a token has one expert"
    if together.sum() == 0:
        return "no token was routed"
    apart = together[~np.eye(len(together), dtype=bool)]
    return "" if apart.any() else "no token has two experts"


def _chance(spec: RouterSpec, work: FloatArray, tokens: float) -> FloatArray:
    """Share of expert2 by chance: (k − 1)/(E − 1) for k of E even experts, else its own load."""
    if spec.kind in ("topk", "image"):
        return np.asarray(((spec.k or 1) - 1) / (spec.experts - 1), dtype=np.float64)
    return work / tokens


def _summary(found: Findings, store: CaptureStore) -> str:
    lift = found.value("lift")
    alive = (
        stack([mean_share(store, spec.key) * spec.experts >= ALIVE for spec in store.layers]) > 0
    )
    counted = alive[:, :, None] & alive[:, None, :] & ~np.eye(lift.shape[1], dtype=bool)
    apart = np.where(counted & np.isfinite(lift), lift, -np.inf)
    if not np.isfinite(apart).any():
        return "No layer gives a token to two experts at work, so there is no co-activation."
    layer, first, second = np.unravel_index(int(apart.argmax()), apart.shape)
    return (
        f"The strongest pair is experts {first} and {second} of layer "
        f"{store.layers[int(layer)].key}: they meet in the same tokens "
        f"{lift[layer, first, second]:.2f} times as often as independent experts would (chance 1)."
    )


def _warnings(store: CaptureStore) -> tuple[str, ...]:
    warned: list[str] = []
    for spec in store.layers:
        warned += selection_warnings(spec)
        warned += collapse_warning(store, spec)
    return tuple(warned)
