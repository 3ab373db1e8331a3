"""How much of routing is about the class, the image, the token, its place, or nothing?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from routelab import metrics
from routelab.analysis.association import Z
from routelab.analysis.axes import layer_names
from routelab.analysis.budget import TERMS, measure_budget
from routelab.analysis.construction import argmax_warnings, tied_warning
from routelab.analysis.findings import Findings, Kind
from routelab.analysis.intervals import mean_band
from routelab.analysis.question import asks
from routelab.analysis.reading import Labelled, image_shares, labelled, table
from routelab.records import Result, RouterSpec
from routelab.store import CaptureStore

FloatArray = NDArray[np.float64]

TERM = ("layer", "term")
KINDS = {
    "budget": Kind("terms that add up to the entropy of mean routing", TERM, "nats"),
    "budget_corrected": Kind(
        "the budget with the class term's chance level moved to the image term", TERM, "nats"
    ),
    "position_information": Kind(
        "information of routing about the place in the image", unit="nats"
    ),
    "coherence": Kind("neighbouring patches with the same top expert, share of pairs"),
    "disagreement": Kind("tokens whose top expert is not their image's, share"),
}
MOST_IMAGES = 256
"""Images with full routing whose spread over tokens stands for all, in position's chance level."""


@asks("How much of routing is about class, image, token, place, or nothing?", level="profiles")
def run(
    store: CaptureStore, *, seed: int = 0, permutations: int = 999, resamples: int = 200
) -> Result:
    """Information budget, position information, coherence and disagreement (catalogue I1–I4).

    Parameters
    ----------
    seed, permutations
        Of the class term's null.
    resamples
        Halves of the images for the standard errors of the terms, and bootstrap samples.
    """
    known = labelled(store)
    found = Findings(layer_names(store), KINDS)
    for spec in store.layers:
        _note_budget(found, store, spec, known, (permutations, resamples, seed))
        _note_position(found, store, spec)
        _note_means(found, store, spec, resamples, seed)
    return Result(
        name="information",
        quantities=found.quantities(),
        coords={"layer": layer_names(store), "term": list(TERMS)},
        n=store.committed if known.reason else len(known.images),
        summary=_summary(found, store),
        warnings=_warnings(store, known),
    )


def _note_budget(
    found: Findings,
    store: CaptureStore,
    spec: RouterSpec,
    known: Labelled,
    draws: tuple[int, int, int],
) -> None:
    """The four terms, and the four with the class term's bias given back to the image term."""
    permutations, resamples, seed = draws
    images, labels, classes = known.images, known.labels, known.classes
    if known.reason:
        images, labels = np.arange(store.committed), np.zeros(store.committed, dtype=np.int64)
        classes, permutations = 1, 0
    shares = image_shares(store, spec.key)[images]
    budget = measure_budget(
        shares,
        _token_entropy(store, spec, shares, images),
        labels,
        classes,
        draws=permutations,
        resamples=resamples,
        seed=seed,
    )
    terms, chance = budget.terms, np.full(len(TERMS), np.nan)
    p = chance.copy()
    if known.reason:
        terms = np.where(np.arange(len(TERMS)) == 0, np.nan, terms)
    else:
        chance[0], p[0] = budget.null.mean(), metrics.against_null(terms[0], budget.null).p
    low, high = terms - Z * budget.error, terms + Z * budget.error
    note = {"chance": chance, "low": low, "high": high, "p": p}
    reason = f"no class term, the image term holds it: {known.reason}" if known.reason else ""
    found.note(spec.key, "budget", terms, **note, reason=reason)
    shift = np.array([-chance[0], chance[0], 0, 0])
    if not known.reason:
        corrected = terms + shift
        found.note(spec.key, "budget_corrected", corrected, low=low + shift, high=high + shift, p=p)


def _token_entropy(
    store: CaptureStore, spec: RouterSpec, shares: FloatArray, images: NDArray[np.int64]
) -> FloatArray:
    """Mean entropy of each image's tokens; an image-level gate has one decision, the image's."""
    if spec.image_level:
        return np.asarray(metrics.shannon_entropy(shares), dtype=np.float64)
    return np.asarray(store.table(spec.key, "token_entropy"), dtype=np.float64)[images]


def _note_position(found: Findings, store: CaptureStore, spec: RouterSpec) -> None:
    """Information between expert and patch position, from the totals of all images."""
    if spec.image_level:
        found.note(spec.key, "position_information", 0.0, chance=0.0, reason="tied")
        return
    mass = np.asarray(store.total(spec.key, "position_mass"), dtype=np.float64)
    found.note(
        spec.key,
        "position_information",
        metrics.table_information(mass),
        chance=_position_chance(store, spec, mass),
        reason="" if mass.sum() > 0 else "no token was routed",
    )


def _position_chance(store: CaptureStore, spec: RouterSpec, mass: FloatArray) -> float:
    """What patches shuffled within their image would give, to second order in 1/n.

    A position's mean over n images then has the variance Σ_i s_i² / n², with s_i² the variance of
    an expert's share over the tokens of image i, and the information ½ Σ_e mean_i s_i² / (n p̄_e).
    The spread is measured on images with full routing; without any it is that of hard choices,
    π (1 − π), an upper bound.
    """
    share = mass.sum(axis=0) / mass.sum() if mass.sum() > 0 else np.full(spec.experts, np.nan)
    if store.full:
        tokens = store.mass(spec.key, slice(0, min(store.full, MOST_IMAGES)))[:, spec.prefix :]
        total = tokens.sum(axis=2, keepdims=True, dtype=np.float64)
        scaled = np.divide(tokens, total, out=np.full(tokens.shape, np.nan), where=total > 0)
        spread = np.nanmean(np.nanvar(scaled, axis=1), axis=0)
    else:
        profile = image_shares(store, spec.key)
        spread = np.nanmean(profile * (1 - profile), axis=0)
    used = share > 0
    return float((spread[used] / share[used]).sum() / (2 * store.committed))


def _note_means(
    found: Findings, store: CaptureStore, spec: RouterSpec, draws: int, seed: int
) -> None:
    """Coherence against what an image's own mix of experts would give, and disagreement."""
    coherence, disagreement = (table(store, spec.key, n) for n in ("coherence", "disagreement"))
    if coherence is not None and np.isfinite(coherence).any():
        band = mean_band(store, coherence, draws=draws, seed=seed)
        mix = _pair_agreement(store, spec)
        mix = mix[np.isfinite(coherence) & np.isfinite(mix)]
        chance = mix.mean() if mix.size else np.nan
        found.note(
            spec.key,
            "coherence",
            np.nanmean(coherence),
            chance=chance,
            low=band.low,
            high=band.high,
        )
    else:
        found.note(spec.key, "coherence", np.nan, reason="tokens do not lie on a grid")
    if disagreement is not None and np.isfinite(disagreement).any():
        band = mean_band(store, disagreement, draws=draws, seed=seed)
        value = np.nanmean(disagreement)
        found.note(spec.key, "disagreement", value, low=band.low, high=band.high)


def _pair_agreement(store: CaptureStore, spec: RouterSpec) -> FloatArray:
    """Share of all pairs of an image's tokens with the same top expert: its within-image null."""
    hits = np.asarray(store.table(spec.key, "hits"), dtype=np.float64)
    tokens = hits.sum(axis=1)
    pairs = tokens * (tokens - 1)
    same = (hits * (hits - 1)).sum(axis=1)
    return np.divide(same, pairs, out=np.full(len(hits), np.nan), where=pairs > 0)


def _warnings(store: CaptureStore, known: Labelled) -> tuple[str, ...]:
    warned = list(argmax_warnings(store))
    for spec in store.layers:
        warned += tied_warning(spec)
        if not spec.soft and spec.k == 1 and not spec.image_level:
            warned.append(
                f"Layer {spec.key} sends a token to one expert: its residual term is 0 by "
                "construction."
            )
    if known.reason:
        warned.append(f"The class term is undefined: {known.reason}.")
    return tuple(warned)


def _summary(found: Findings, store: CaptureStore) -> str:
    terms = found.value("budget")
    quantities = found.quantities()
    if "budget_corrected" not in quantities:
        return "No class term; the rest of the budget is given by layer."
    above = found.value("budget_corrected")[:, 0]
    if not np.isfinite(above).any():
        return "The information budget is undefined in every layer."
    best = int(np.nanargmax(above))
    chance = quantities["budget"].chance
    by_chance = np.nan if chance is None else chance[best, 0]
    _, image, token, residual = terms[best]
    return (
        f"Class is told best by layer {store.layers[best].key}: {terms[best, 0]:.3f} nats (chance "
        f"{by_chance:.3f}), beside {image:.3f} for the image, {token:.3f} for the token and "
        f"{residual:.3f} undecided."
    )
