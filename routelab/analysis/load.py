"""Who does the work, and does any expert do none?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from routelab import metrics
from routelab.analysis.axes import layer_names
from routelab.analysis.construction import (
    capacity_warning,
    collapse_warning,
    dispatch_warning,
    hardness_warning,
    selection_warnings,
)
from routelab.analysis.findings import Findings, Kind
from routelab.analysis.intervals import mean_band, percentile_band, resampled_means, strata
from routelab.analysis.question import asks
from routelab.analysis.reading import table
from routelab.records import Result, RouterSpec
from routelab.store import CaptureStore

FloatArray = NDArray[np.float64]

EXPERT = ("layer", "expert")
KINDS = {
    "share": Kind("share of the work: combine mass (soft) or kept choices (sparse)", EXPERT),
    "mass_share": Kind("share of the mass: combine weight (soft) or gate (sparse)", EXPERT),
    "cv2": Kind("squared coefficient of variation of load; 0 is balanced, E − 1 one expert"),
    "max_violation": Kind("largest load / mean load − 1; 0 is balanced"),
    "min_violation": Kind("smallest load / mean load − 1; −1 is an expert without work"),
    "normalized_entropy": Kind("entropy of the load / ln E; 1 is balanced"),
    "effective_experts": Kind("exp of the entropy of the load, from 1 to E", unit="experts"),
    "gini": Kind("Gini coefficient of the load; 0 is balanced, 1 − 1/E one expert"),
    "dead": Kind(
        "1 where an expert did nothing: no token (sparse), below 0.0001 / E of the mass (soft)",
        EXPERT,
    ),
    "cold": Kind("1 where an expert's share is below alpha / E", EXPERT),
    "tokens": Kind("patch tokens that were routed, M", unit="tokens"),
    "dropped": Kind("share of wanted choices that no buffer had room for"),
    "token_entropy": Kind("mean entropy of a token's weights over experts", unit="nats"),
    "marginal_entropy": Kind("entropy of the mean weights over experts", unit="nats"),
    "routing_information": Kind("marginal minus token entropy: what a token tells", unit="nats"),
    "hardness": Kind("mean largest share of a token; 1/E is uniform"),
    "margin": Kind("mean gap of a token's two largest shares"),
}
SILENT = 1e-4
"""Of an even share: a soft expert below it does nothing."""
MEANS = ("dropped", "hardness", "margin", "token_entropy")
"""Per-image tables whose mean over images is a quantity of the same name."""


@asks("Who does the work, and does any expert do none?", level="totals")
def run(
    store: CaptureStore, *, seed: int = 0, permutations: int = 999, alpha: float = 0.1
) -> Result:
    """Load, balance, collapse and decisiveness by layer (catalogue L1–L8, L10).

    Parameters
    ----------
    seed, permutations
        Of the bootstrap of the intervals, drawn `permutations` times.
    alpha
        An expert is cold below alpha / E of the work.
    """
    found = Findings(layer_names(store), KINDS)
    for spec in store.layers:
        _note_load(found, store, spec, alpha)
        _note_entropies(found, store, spec)
        if store.card.capture.level != "totals":
            _note_intervals(found, store, spec, draws=permutations, seed=seed)
    return Result(
        name="load",
        quantities=found.quantities(),
        coords={"layer": layer_names(store)},
        n=store.committed,
        summary=_summary(found, store),
        warnings=_warnings(store),
    )


def work(store: CaptureStore, spec: RouterSpec) -> FloatArray:
    """Work done by each expert (E,): combine mass (soft), or tokens that it kept (sparse)."""
    if spec.soft:
        return np.asarray(store.total(spec.key, "position_mass"), dtype=np.float64).sum(axis=0)
    return np.asarray(store.total(spec.key, "coactivation"), dtype=np.float64).diagonal().copy()


def work_rows(store: CaptureStore, spec: RouterSpec) -> FloatArray | None:
    """Work by image (n, E) where the tables have it: the profile (soft) or the hits (k = 1)."""
    if spec.soft:
        return table(store, spec.key, "profile")
    return table(store, spec.key, "hits") if spec.k == 1 else None


def _note_load(found: Findings, store: CaptureStore, spec: RouterSpec, alpha: float) -> None:
    """Everything that follows from the work of each expert."""
    layer, load = spec.key, work(store, spec)
    reason = "" if load.sum() > 0 else "no token was routed"
    even = 1 / spec.experts
    found.note(layer, "share", metrics.load_share(load), chance=even, reason=reason)
    mass = np.asarray(store.total(layer, "position_mass"), dtype=np.float64).sum(axis=0)
    found.note(layer, "mass_share", metrics.load_share(mass), chance=even, reason=reason)
    found.note(layer, "cv2", metrics.cv_squared(load), chance=0, reason=reason)
    found.note(layer, "max_violation", metrics.max_violation(load), chance=0, reason=reason)
    found.note(layer, "min_violation", metrics.min_violation(load), chance=0, reason=reason)
    flat = reason or ("" if spec.experts > 1 else "one expert")
    entropy = metrics.load_entropy(load, normalized=True)
    found.note(layer, "normalized_entropy", entropy, chance=1, reason=flat)
    found.note(layer, "effective_experts", metrics.effective_experts(load), chance=spec.experts)
    found.note(layer, "gini", metrics.gini(load), chance=0, reason=reason)
    found.note(layer, "dead", metrics.dead_experts(np.where(_silent(spec, load), 0, load)))
    found.note(layer, "cold", metrics.cold_experts(load, alpha=alpha))
    found.note(layer, "tokens", float(np.asarray(store.total(layer, "tokens"))))


def _silent(spec: RouterSpec, load: FloatArray) -> NDArray[np.bool_]:
    """Experts of a soft layer that are dead in all but rounding: a softmax weight is never 0."""
    return spec.soft & (load < SILENT / spec.experts * load.sum())


def _note_entropies(found: Findings, store: CaptureStore, spec: RouterSpec) -> None:
    """Token entropy against marginal entropy, from the totals alone."""
    layer = spec.key
    tokens = float(np.asarray(store.total(layer, "tokens")))
    if tokens == 0:
        return
    local = -float(np.asarray(store.total(layer, "mass_log_mass"))) / tokens
    mass = np.asarray(store.total(layer, "position_mass"), dtype=np.float64).sum(axis=0)
    marginal = metrics.load_entropy(mass)
    found.note(layer, "token_entropy", local, chance=np.log(spec.experts))
    found.note(layer, "marginal_entropy", marginal, chance=np.log(spec.experts))
    found.note(layer, "routing_information", marginal - local, chance=0)


def _note_intervals(
    found: Findings, store: CaptureStore, spec: RouterSpec, *, draws: int, seed: int
) -> None:
    """The means of per-image tables, and intervals over images for them and for the shares."""
    layer = spec.key
    rows = work_rows(store, spec)
    if rows is not None:
        resampled = metrics.row_shares(resampled_means(rows, strata(store), draws=draws, seed=seed))
        band = percentile_band(resampled)
        share = metrics.load_share(work(store, spec))
        found.note(layer, "share", share, chance=1 / spec.experts, low=band.low, high=band.high)
    for name in MEANS:
        values = table(store, layer, name)
        if values is None or not np.isfinite(values).any():
            continue
        band = mean_band(store, values, draws=draws, seed=seed)
        chance = {"hardness": 1 / spec.experts, "token_entropy": np.log(spec.experts)}.get(name)
        found.note(layer, name, np.nanmean(values), chance=chance, low=band.low, high=band.high)


def _summary(found: Findings, store: CaptureStore) -> str:
    effective, dead, cold = (found.value(n) for n in ("effective_experts", "dead", "cold"))
    tokens = found.value("tokens")
    worst = int(np.nanargmin(effective / [spec.experts for spec in store.layers]))
    spec = store.layers[worst]
    return (
        f"Over {np.nanmax(tokens):,.0f} tokens a layer, {int(np.nansum(dead))} experts were dead "
        f"and {int(np.nansum(cold))} cold; layer {spec.key} is the least balanced, with "
        f"{effective[worst]:.2f} of {spec.experts} experts in effect."
    )


def _warnings(store: CaptureStore) -> tuple[str, ...]:
    warned = list(dispatch_warning(store))
    for spec in store.layers:
        warned += selection_warnings(spec)
        warned += collapse_warning(store, spec)
        warned += hardness_warning(store, spec)
        warned += capacity_warning(store, spec)
    return tuple(warned)
