"""How few tokens make up a slot, how few slots make up a token, and do slots repeat each other?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from routelab import metrics
from routelab.analysis.construction import dispatch_warning
from routelab.analysis.findings import Findings, Kind
from routelab.analysis.intervals import Band, percentile_band, resampled_means, strata
from routelab.analysis.question import asks
from routelab.analysis.reading import chunks, soft_layers
from routelab.analysis.streaming import CurveSummary
from routelab.records import Result, RouterSpec
from routelab.store import CaptureStore

FloatArray = NDArray[np.float64]

CURVE = ("layer", "fraction")
QUANTILES = {"p05": 0.05, "p25": 0.25, "p75": 0.75, "p95": 0.95}
BELOW, ABOVE = 0.25, 2.0
PAIRS_AT_ONCE = 2**22
"""Pairs of slots whose cosines are held at a time."""
KINDS = {
    "effective_tokens": Kind("exp of the entropy of a slot's dispatch weights", unit="tokens"),
    "dispatch_curve": Kind("mass of a slot in its largest tokens, mean over slots", CURVE),
    **{
        f"dispatch_curve_{name}": Kind(f"{name} over slots and images", CURVE) for name in QUANTILES
    },
    "combine_curve": Kind("mass of a token in its largest slots, mean over tokens", CURVE),
    **{
        f"combine_curve_{name}": Kind(f"{name} over tokens and images", CURVE) for name in QUANTILES
    },
    "token_total_below": Kind(f"tokens whose dispatch total is below {BELOW} of the mean, share"),
    "token_total_above": Kind(
        f"tokens whose dispatch total is above {ABOVE} times the mean, share"
    ),
    "redundancy_within": Kind("cosine of dispatch weights of two slots of one expert"),
    "redundancy_between": Kind("cosine of dispatch weights of slots of different experts"),
}
PER_IMAGE = (
    "effective_tokens",
    "token_total_below",
    "token_total_above",
    "redundancy_within",
    "redundancy_between",
)


@asks("How few tokens make up a slot, and how few slots a token?", level="full")
def run(
    store: CaptureStore,
    *,
    seed: int = 0,
    permutations: int = 999,
    most_images: int = 256,
    points: int = 51,
) -> Result:
    """Concentration of dispatch and combine in the soft layers (catalogue T1–T3, T5).

    Tokens are all that are routed, class and register tokens too, since a dispatch column sums to 1
    over all of them. Images are read a shard at a time.

    Parameters
    ----------
    seed, permutations
        Of the bootstrap over images, drawn `permutations` times.
    most_images
        Images with full routing that are read, the first ones.
    points
        Points of a curve, from no token to all of them.

    Raises
    ------
    Refusal
        No layer is soft.
    """
    soft = soft_layers(store, "concentration")
    names = [spec.key for spec in soft]
    fraction = np.linspace(0, 1, points)
    found = Findings(names, KINDS)
    for spec in soft:
        seen = _read(store, spec, fraction, most_images)
        draws = resampled_means(
            seen.rows, strata(store)[: len(seen.rows)], draws=permutations, seed=seed
        )
        _note_means(found, spec, seen.rows, percentile_band(draws))
        _note_curves(found, spec, "dispatch_curve", seen.dispatch, fraction)
        _note_curves(found, spec, "combine_curve", seen.combine, fraction)
    return Result(
        name="concentration",
        quantities=found.quantities(),
        coords={"layer": names, "fraction": [f"{place:.3g}" for place in fraction]},
        n=min(store.full, most_images),
        summary=_summary(found, soft),
        warnings=tuple(_warnings(store)),
    )


class _Seen(NamedTuple):
    """What one layer's chunks left behind: per-image rows (n, 5), and curve summaries."""

    rows: FloatArray
    dispatch: CurveSummary
    combine: CurveSummary


def _read(store: CaptureStore, spec: RouterSpec, fraction: FloatArray, most_images: int) -> _Seen:
    dispatch_curves, combine_curves = CurveSummary(len(fraction)), CurveSummary(len(fraction))
    rows = []
    for images in chunks(store, limit=most_images):
        dispatch = store.dispatch(spec.key, images).astype(np.float64)
        rows.append(_image_rows(dispatch, spec))
        dispatch_curves.add(_curve(dispatch.transpose(0, 2, 1), fraction))
        combine_curves.add(_curve(store.combine(spec.key, images).astype(np.float64), fraction))
    return _Seen(np.concatenate(rows), dispatch_curves, combine_curves)


def _curve(weights: FloatArray, fraction: FloatArray) -> FloatArray:
    """Cumulative mass of each row (..., J) at fractions of its largest entries, (..., points)."""
    cumulated = metrics.cumulative_mass(weights)
    cumulated = np.concatenate([np.zeros((*weights.shape[:-1], 1)), cumulated], axis=-1)
    place = fraction * weights.shape[-1]
    before = np.minimum(place.astype(np.int64), weights.shape[-1] - 1)
    part = place - before
    return cumulated[..., before] * (1 - part) + cumulated[..., before + 1] * part


def _image_rows(dispatch: FloatArray, spec: RouterSpec) -> FloatArray:
    """The numbers of `PER_IMAGE` for each image of a chunk (b, N, S): shape (b, 5)."""
    totals = metrics.token_totals(dispatch)
    step = max(1, PAIRS_AT_ONCE // spec.slots**2)
    parts = [dispatch[start : start + step] for start in range(0, len(dispatch), step)]
    similar = [metrics.slot_redundancy(part, spec.expert_of_slot) for part in parts]
    within, between = (np.concatenate(values) for values in zip(*similar, strict=True))
    columns = [
        metrics.effective_tokens(dispatch).mean(axis=-1),
        (totals < BELOW).mean(axis=-1),
        (totals > ABOVE).mean(axis=-1),
        within,
        between,
    ]
    return np.stack(columns, axis=1)


def _note_means(found: Findings, spec: RouterSpec, rows: FloatArray, band: Band) -> None:
    groups = [(group.stop - group.start) * group.slots for group in spec.groups]
    alone = sum(groups) == spec.experts
    chance = _redundancy_chance(rows, spec)
    for place, name in enumerate(PER_IMAGE):
        reason = ""
        if name == "redundancy_within" and alone:
            reason = "one slot an expert"
        if name == "redundancy_between" and spec.experts == 1:
            reason = "one expert"
        value = np.nan if reason else rows[:, place].mean()
        by_chance = {
            "effective_tokens": spec.tokens,
            "token_total_below": 0,
            "token_total_above": 0,
        }
        found.note(
            spec.key,
            name,
            value,
            chance=by_chance.get(name, chance),
            low=band.low[place],
            high=band.high[place],
            reason=reason,
        )


def _redundancy_chance(rows: FloatArray, spec: RouterSpec) -> float:
    """Mean cosine of any two slots: what a shuffled map from slots to experts would give."""
    sizes = np.bincount(spec.expert_of_slot)
    within = float((sizes * (sizes - 1)).sum())
    between = float(sizes.sum() * (sizes.sum() - 1)) - within
    if within + between == 0:
        return float("nan")
    means = np.nan_to_num(rows[:, 3:].mean(axis=0))
    return float((means @ [within, between]) / (within + between))


def _note_curves(
    found: Findings, spec: RouterSpec, name: str, curves: CurveSummary, fraction: FloatArray
) -> None:
    found.note(spec.key, name, curves.mean, chance=fraction)
    bands = curves.quantiles(list(QUANTILES.values()))
    for quantile, band in zip(QUANTILES, bands, strict=True):
        found.note(spec.key, f"{name}_{quantile}", band)


def _warnings(store: CaptureStore) -> list[str]:
    warned = list(dispatch_warning(store))
    left_out = [spec.key for spec in store.layers if not spec.soft]
    if left_out:
        warned.append(f"Layers {', '.join(left_out)} are not soft and have no dispatch weights.")
    return warned


def _summary(found: Findings, soft: list[RouterSpec]) -> str:
    effective = found.value("effective_tokens")
    share = effective / [spec.tokens for spec in soft]
    if not np.isfinite(share).any():
        return "Slot concentration is undefined."
    sharp = int(np.nanargmin(share))
    return (
        f"Slots are sharpest in layer {soft[sharp].key}, where one reads {effective[sharp]:.1f} "
        f"tokens in effect of {soft[sharp].tokens} (uniform dispatch: all of them)."
    )
