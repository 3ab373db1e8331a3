"""Which classes does each expert serve, more than its share of the work would have it?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from routelab import metrics
from routelab.analysis.association import Z
from routelab.analysis.axes import class_names, layer_names
from routelab.analysis.class_sums import ClassSums, bootstraps
from routelab.analysis.class_sums import permutations as shuffles
from routelab.analysis.construction import argmax_warnings
from routelab.analysis.findings import Findings, Kind
from routelab.analysis.intervals import Band
from routelab.analysis.question import asks
from routelab.analysis.reading import Labelled, image_shares, labelled
from routelab.records import Result, RouterSpec
from routelab.store import CaptureStore

FloatArray = NDArray[np.float64]

EXPERT, CELL = ("layer", "expert"), ("layer", "class", "expert")
KINDS = {
    "work": Kind("mass of the expert, labelled images", EXPERT, "images"),
    "purity": Kind("largest share of one class in an expert's mass", EXPERT),
    "class_entropy": Kind("entropy of the classes in an expert's mass", EXPERT, "nats"),
    "divergence": Kind("Jensen–Shannon divergence of its classes from all", EXPERT, "bits"),
    "top_class": Kind("index of the class with the largest share in the expert", EXPERT),
    "selectivity": Kind(
        "preferred class against the others, chosen on half A, measured on half B", EXPERT
    ),
    "lift": Kind("a class's share in an expert over its share in all; 1 by chance", CELL),
    "log_lift": Kind(
        "log2 of observed over expected mass of half B, half an image added to both", CELL
    ),
    "q": Kind("p of the lift (either side), Benjamini–Hochberg over a layer's cells", CELL),
}
FEW = 10
"""Images' worth of mass below which an expert's numbers are flagged."""


class Null(NamedTuple):
    """What shuffled labels give: means by expert, and a p on either side for every cell."""

    purity: FloatArray
    divergence: FloatArray
    p: FloatArray


@asks("Which classes does each expert serve?", level="profiles")
def run(
    store: CaptureStore, *, seed: int = 0, permutations: int = 999, resamples: int = 200
) -> Result:
    """Purity, divergence, lift and selectivity of every expert (catalogue S1–S4).

    An expert's classes are weighed by image profile (soft mass), so n is images, never tokens.

    Parameters
    ----------
    seed, permutations
        Of the null.
    resamples
        Bootstrap samples for the intervals of the lift.
    """
    known = labelled(store)
    found = Findings(layer_names(store), KINDS)
    warned = list(argmax_warnings(store))
    for spec in store.layers:
        if known.reason:
            _note_nothing(found, spec, known)
            continue
        shares = image_shares(store, spec.key)[known.images]
        valid = np.isfinite(shares).all(axis=1)
        rows, labels = shares[valid], known.labels[valid].astype(np.int32)
        sums = ClassSums(rows, known.classes)
        mass = sums.under(labels[None]).mass[0]
        null = _null(sums, labels, mass, permutations, seed)
        _note_experts(found, spec, mass, null)
        _note_cells(found, spec, mass, null, _lift_band(sums, labels, mass, resamples, seed))
        _note_halves(found, spec, rows, labels, known.classes, seed)
        warned += _few_warning(spec, mass)
    return Result(
        name="specialization",
        quantities=found.quantities(),
        coords={"layer": layer_names(store), "class": class_names(store)},
        n=len(known.images),
        summary=_summary(found, store, known),
        warnings=tuple(warned) if not known.reason else (f"No class: {known.reason}.",),
    )


def _null(
    sums: ClassSums, labels: NDArray[np.int32], mass: FloatArray, draws: int, seed: int
) -> Null:
    """One pass over the permutations; memory does not grow with them."""
    purity, divergence = np.zeros(mass.shape[1]), np.zeros(mass.shape[1])
    above, below = np.zeros(mass.shape), np.zeros(mass.shape)
    slack = 1e-9 * np.maximum(1, mass)
    for block in shuffles(labels, draws, seed=seed):
        drawn = sums.under(block).mass
        purity += np.sum([metrics.expert_purity(table) for table in drawn], axis=0)
        divergence += np.sum([metrics.expert_divergence(table) for table in drawn], axis=0)
        above += (drawn >= mass - slack).sum(axis=0)
        below += (drawn <= mass + slack).sum(axis=0)
    either = np.minimum(1, 2 * (1 + np.minimum(above, below)) / (1 + draws))
    return Null(purity / max(draws, 1), divergence / max(draws, 1), either)


def _note_experts(found: Findings, spec: RouterSpec, mass: FloatArray, null: Null) -> None:
    work = mass.sum(axis=0)
    dead = [str(expert) for expert in np.flatnonzero(work <= 0)]
    reason = f"dead experts {', '.join(dead)}" if dead else ""
    found.note(spec.key, "work", work)
    found.note(spec.key, "purity", metrics.expert_purity(mass), chance=null.purity, reason=reason)
    found.note(
        spec.key,
        "class_entropy",
        metrics.expert_class_entropy(mass, normalized=False),
        reason=reason,
    )
    found.note(
        spec.key,
        "divergence",
        metrics.expert_divergence(mass),
        chance=null.divergence,
        reason=reason,
    )
    top = np.where(work > 0, mass.argmax(axis=0), np.nan)
    found.note(spec.key, "top_class", top, reason=reason)


def _note_cells(
    found: Findings, spec: RouterSpec, mass: FloatArray, null: Null, band: Band
) -> None:
    lift = metrics.lift(mass)
    found.note(spec.key, "lift", lift, chance=1, low=band.low, high=band.high, p=null.p)
    defined = np.isfinite(lift)
    q = np.full(lift.shape, np.nan)
    if defined.any():
        q[defined] = metrics.benjamini_hochberg(null.p[defined])
    found.note(spec.key, "q", q)


def _lift_band(
    sums: ClassSums, labels: NDArray[np.int32], mass: FloatArray, draws: int, seed: int
) -> Band:
    """Normal interval of the lift from the bootstrap's standard error; memory of one table."""
    first, second = np.zeros(mass.shape), np.zeros(mass.shape)
    for block in bootstraps(labels, draws, seed=seed):
        lift = np.array([metrics.lift(table) for table in sums.weighted(labels, block).mass])
        first += lift.sum(axis=0)
        second += (lift**2).sum(axis=0)
    error = np.sqrt(np.maximum(second / draws - (first / draws) ** 2, 0))
    lift = metrics.lift(mass)
    return Band(np.maximum(lift - Z * error, 0), lift + Z * error)


def _note_halves(
    found: Findings,
    spec: RouterSpec,
    rows: FloatArray,
    labels: NDArray[np.int32],
    classes: int,
    seed: int,
) -> None:
    """What is chosen or sorted on half A is measured and drawn on half B (winner's curse)."""
    half_a, half_b = metrics.split_halves(labels, seed=seed)
    mass = ClassSums(rows[half_b], classes).under(labels[half_b][None]).mass[0]
    reason = "" if len(half_b) else "no image in half B"
    found.note(spec.key, "log_lift", metrics.shrunken_lift(mass), chance=0, reason=reason)
    chosen, measured = (
        metrics.class_profile(labels[half], rows[half], classes=classes)
        for half in (half_a, half_b)
    )
    both = np.isfinite(chosen).all(axis=1) & np.isfinite(measured).all(axis=1)
    if both.sum() < 2:
        nothing = np.full(spec.experts, np.nan)
        found.note(spec.key, "selectivity", nothing, reason="fewer than two classes in each half")
        return
    preferred = chosen[both].argmax(axis=0)
    value = metrics.selectivity(measured[both], preferred)
    found.note(spec.key, "selectivity", value, chance=0)


def _note_nothing(found: Findings, spec: RouterSpec, known: Labelled) -> None:
    for name, kind in KINDS.items():
        shape = (known.classes, spec.experts) if kind.dims == CELL else (spec.experts,)
        found.note(spec.key, name, np.full(shape, np.nan), reason=known.reason)


def _few_warning(spec: RouterSpec, mass: FloatArray) -> list[str]:
    work = mass.sum(axis=0)
    few = np.flatnonzero((work > 0) & (work < FEW))
    if not few.size:
        return []
    named = ", ".join(str(expert) for expert in few[:8]) + (" …" if few.size > 8 else "")
    return [
        f"Layer {spec.key} has experts with less than {FEW} images' worth of mass ({named}); their "
        "purity and divergence are high by smallness alone."
    ]


def _summary(found: Findings, store: CaptureStore, known: Labelled) -> str:
    if known.reason:
        return f"Specialization is undefined: {known.reason}."
    purity = found.quantities()["purity"]
    chance = np.full(purity.value.shape, np.nan) if purity.chance is None else purity.chance
    above = np.where(found.value("work") >= FEW, purity.value - chance, np.nan)
    if not np.isfinite(above).any():
        return f"No expert had {FEW} labelled images' worth of work."
    layer, expert = np.unravel_index(int(np.nanargmax(above)), above.shape)
    q, top = found.value("q"), int(found.value("top_class")[layer, expert])
    return (
        f"The most specialised is expert {expert} of layer {store.layers[int(layer)].key}: "
        f"{purity.value[layer, expert]:.1%} of its mass is {class_names(store)[top]} (chance "
        f"{chance[layer, expert]:.1%}); {int((q <= 0.05).sum())} of {int(np.isfinite(q).sum())} "
        "class × expert cells differ from chance at q ≤ 0.05."
    )
