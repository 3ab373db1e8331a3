"""Do images of one class take the same experts, more than shuffled labels would have it?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from routelab import metrics
from routelab.analysis.association import Association, Z, associate
from routelab.analysis.axes import class_names, layer_names
from routelab.analysis.construction import argmax_warnings
from routelab.analysis.findings import Findings, Kind
from routelab.analysis.intervals import percentile_band
from routelab.analysis.question import asks
from routelab.analysis.reading import Labelled, image_shares, labelled
from routelab.records import Result, RouterSpec
from routelab.store import CaptureStore

FloatArray = NDArray[np.float64]

CELL = ("layer", "class", "expert")
KINDS = {
    "class_profile": Kind("mean share of a class's images at each expert", CELL),
    "class_profile_a": Kind("class profile of half A, for sorting and choosing", CELL),
    "class_profile_b": Kind("class profile of half B, for drawing and measuring", CELL),
    "max_share": Kind(
        "mean over classes of the largest share; its chance level is the mean of shuffled labels"
    ),
    "max_share_null_low": Kind("2.5 % point of the maximum share under shuffled labels"),
    "max_share_null_high": Kind("97.5 % point of the maximum share under shuffled labels"),
    "normalized_max_share": Kind("(maximum share − 1/E) / (1 − 1/E)"),
    "contrast": Kind("same-class minus different-class agreement; 0 by chance and if collapsed"),
    "ami": Kind("adjusted mutual information of class and top expert; 0 by chance"),
    "nmi": Kind("normalised mutual information; inflates with the number of experts"),
    "information": Kind("information of soft routing about the class", unit="nats"),
    "eta_squared": Kind("share of the profiles' variance that lies between classes"),
    "cramers_v": Kind("Cramér's V of class and top expert, bias-corrected"),
    "tie_fraction": Kind("share of images whose two largest shares are equal"),
    "p_max_statistic": Kind("p of the contrast over all layers at once (family-wise)"),
    "ami_prediction": Kind("AMI of the model's prediction and the top expert; 0 by chance"),
    "reliability": Kind("correlation of the class profiles of halves A and B; 0 by chance"),
}
NEEDS_CLASSES = tuple(
    name for name, kind in KINDS.items() if kind.dims == ("layer",) and name != "tie_fraction"
)


@asks("Do images of one class take the same experts?", level="profiles")
def run(
    store: CaptureStore, *, seed: int = 0, permutations: int = 999, resamples: int = 200
) -> Result:
    """Class consistency of every layer, with chance level, interval and p (catalogue CC1–CC9, Q).

    Labels are shuffled over images for the null, alike in every layer, so that the largest
    statistic over layers has a null too. The contrast is bootstrapped over images within class;
    statistics that a bootstrap biases get their standard error from halves drawn without
    replacement.

    Parameters
    ----------
    seed, permutations
        Of the null.
    resamples
        Bootstrap samples, and halves.
    """
    known = labelled(store)
    found = Findings(layer_names(store), KINDS)
    measured: dict[str, Association] = {}
    for spec in store.layers:
        shares = image_shares(store, spec.key)[known.images]
        _note_ties(found, spec, shares)
        if known.reason:
            _note_nothing(found, spec, known)
            continue
        result = associate(
            shares, known.labels, known.classes, draws=permutations, resamples=resamples, seed=seed
        )
        measured[spec.key] = result
        _note_association(found, spec, result)
        _note_table(found, spec, result)
        _note_halves(found, spec, shares, known, seed)
        _note_prediction(found, store, spec)
    _note_all_layers(found, measured)
    return Result(
        name="consistency",
        quantities=found.quantities(),
        coords={"layer": layer_names(store), "class": class_names(store)},
        n=len(known.images),
        summary=_summary(found, store, known),
        warnings=(*argmax_warnings(store), *_size_warnings(known, permutations)),
    )


def _note_ties(found: Findings, spec: RouterSpec, shares: FloatArray) -> None:
    """How many top experts are a coin's choice (the lowest index is taken)."""
    routed = shares[np.isfinite(shares).all(axis=1)]
    reason = "" if len(routed) else "no image was routed"
    found.note(spec.key, "tie_fraction", metrics.top_expert(routed)[1], reason=reason)


def _note_nothing(found: Findings, spec: RouterSpec, known: Labelled) -> None:
    for name in NEEDS_CLASSES:
        found.note(spec.key, name, np.nan, reason=known.reason)
    empty = np.full((known.classes, spec.experts), np.nan)
    found.note(spec.key, "class_profile", empty, reason=known.reason)


def _note_association(found: Findings, spec: RouterSpec, result: Association) -> None:
    """Soft statistics, each beside the mean of its null."""
    layer, even = spec.key, 1 / spec.experts
    found.note(layer, "class_profile", result.profile, chance=even)
    for name in ("max_share", "information", "eta_squared", "contrast"):
        value, null = result.observed[name], result.null[name]
        low, high = (float(value + side * Z * result.error[name]) for side in (-1, 1))
        chance = float(null.mean())
        if name == "contrast":
            low, high = (float(end) for end in result.contrast)
            chance = 0.0
        p = metrics.against_null(value, null).p
        reason = "" if np.isfinite(value) else "all images have the same profile"
        found.note(layer, name, value, chance=chance, low=low, high=high, p=p, reason=reason)
    band = percentile_band(result.null["max_share"])
    found.note(layer, "max_share_null_low", band.low)
    found.note(layer, "max_share_null_high", band.high)
    if spec.experts == 1:
        found.note(layer, "normalized_max_share", np.nan, reason="one expert")
        return
    value = result.observed["max_share"]
    found.note(
        layer,
        "normalized_max_share",
        (value - even) / (1 - even),
        chance=(result.null["max_share"].mean() - even) / (1 - even),
        p=metrics.against_null(value, result.null["max_share"]).p,
    )


def _note_table(found: Findings, spec: RouterSpec, result: Association) -> None:
    """Statistics of the hard assignment; a layer with one used expert has none."""
    layer, table = spec.key, result.table
    if (table.sum(axis=0) > 0).sum() < 2:
        for name in ("ami", "nmi", "cramers_v"):
            found.note(
                layer, name, np.nan, reason="degenerate: one expert is the top of all images"
            )
        return
    value, null = result.observed["hard_information"], result.null["hard_information"]
    entropy = metrics.mean_margin_entropy(table)
    expected = metrics.expected_information(table)
    p = metrics.against_null(value, null).p
    ami, error = (
        (value - expected) / (entropy - expected),
        Z * result.error["hard_information"] / (entropy - expected),
    )
    found.note(layer, "ami", ami, chance=0, low=ami - error, high=ami + error, p=p)
    found.note(layer, "nmi", value / entropy, chance=null.mean() / entropy, p=p)
    found.note(layer, "cramers_v", metrics.cramers_v(table), chance=0, p=p)


def _note_halves(
    found: Findings, spec: RouterSpec, shares: FloatArray, known: Labelled, seed: int
) -> None:
    """Class profiles of two halves: what is chosen on A is measured on B."""
    valid = np.isfinite(shares).all(axis=1)
    rows, labels = shares[valid], known.labels[valid]
    profiles = []
    for name, half in zip(
        ("class_profile_a", "class_profile_b"), metrics.split_halves(labels, seed=seed), strict=True
    ):
        profile = metrics.class_profile(labels[half], rows[half], classes=known.classes)
        profiles.append(profile)
        found.note(spec.key, name, profile, chance=1 / spec.experts)
    reliability = metrics.split_half_correlation(*(_without_load(part) for part in profiles))
    reason = "" if np.isfinite(reliability) else "class profiles do not vary"
    found.note(spec.key, "reliability", reliability, chance=0, reason=reason)


def _without_load(profile: FloatArray) -> FloatArray:
    """Class profiles less each expert's mean: load alone would make two halves agree."""
    seen = np.isfinite(profile).all(axis=1)
    return profile - profile[seen].mean(axis=0) if seen.any() else profile


def _note_prediction(found: Findings, store: CaptureStore, spec: RouterSpec) -> None:
    """Does routing follow what the model will say rather than what is true? (CC8)"""
    shares = image_shares(store, spec.key)
    valid = np.isfinite(shares).all(axis=1) & (store.predictions >= 0)
    top, predicted = shares[valid].argmax(axis=1), store.predictions[valid]
    reason = ""
    if np.unique(predicted).size < 2 or np.unique(top).size < 2:
        reason = "degenerate: one predicted class or one top expert"
    value = np.nan if reason else metrics.ami_score(predicted, top)
    found.note(spec.key, "ami_prediction", value, chance=0, reason=reason)


def _note_all_layers(found: Findings, measured: dict[str, Association]) -> None:
    """P of the contrast, corrected for having looked at every layer."""
    if not measured:
        return
    observed = [result.observed["contrast"] for result in measured.values()]
    null = np.stack([result.null["contrast"] for result in measured.values()], axis=1)
    for layer, p in zip(measured, metrics.max_statistic_test(observed, null), strict=True):
        reason = "" if np.isfinite(p) else "routing does not vary over images"
        found.note(layer, "p_max_statistic", p, reason=reason)


def _size_warnings(known: Labelled, permutations: int) -> list[str]:
    if known.reason:
        return [f"Nothing can be said of classes: {known.reason}."]
    smallest = metrics.smallest_p(known.labels, permutations)
    if smallest > 0.05:
        return [
            f"With {len(known.images)} labelled images no p can fall below {smallest:.2g}: "
            "too few to be significant."
        ]
    return []


def _summary(found: Findings, store: CaptureStore, known: Labelled) -> str:
    if known.reason:
        return f"Class consistency is undefined: {known.reason}."
    contrast = found.value("contrast")
    if not np.isfinite(contrast).any():
        return "Class consistency is undefined: no class has two images."
    best = int(np.nanargmax(contrast))
    layer = store.layers[best].key
    p, quantities = found.value("p_max_statistic"), found.quantities()
    follow = [spec.key for spec, value in zip(store.layers, p, strict=True) if value <= 0.05]
    share = quantities["max_share"]
    chance = share.chance if share.chance is not None else np.full(share.value.shape, np.nan)
    return (
        f"Routing follows class in {len(follow)} of {len(store.layers)} layers at the 5 % level "
        f"corrected for layers; most in layer {layer}, where the contrast is {contrast[best]:.3f} "
        f"(chance 0) and the mean maximum share {share.value[best]:.3f} "
        f"(chance {chance[best]:.3f})."
    )
