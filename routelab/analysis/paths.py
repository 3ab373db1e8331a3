"""Which expert follows which from layer to layer, and do paths tell classes apart?"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from routelab import metrics
from routelab.analysis.construction import argmax_warnings
from routelab.analysis.findings import Findings, Kind
from routelab.analysis.question import asks
from routelab.analysis.reading import image_shares, labelled
from routelab.records import Quantity, Refusal, Result, RouterSpec
from routelab.store import CaptureStore

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

PAIR = ("pair", "expert", "expert2")
KINDS = {
    "transition": Kind("share of images that go from expert to expert2; all sum to 1", PAIR),
    "transition_probability": Kind("of an expert's images, the share that goes to expert2", PAIR),
    "transition_ami": Kind("adjusted mutual information of neighbouring layers", ("pair",)),
}
SCALARS = {
    "path_entropy": Kind(
        "entropy of the paths through all layers; chance: layers shuffled apart", (), "nats"
    ),
    "effective_paths": Kind("exp of the path entropy", (), "paths"),
    "unique_paths": Kind("paths that an image takes", (), "paths"),
    "path_ami": Kind("adjusted mutual information of path and class; 0 by chance", ()),
    "nominal_degree_log": Kind("ln of the paths that there are, Σ ln C(E, k)", (), "nats"),
    "utilization": Kind("path entropy / nominal degree (log); capped by ln n", ()),
}
MOST_SHUFFLES = 99
"""Draws of the path entropy by chance: its mean over draws hardly varies."""


@asks("Which expert follows which, and do paths tell classes apart?", level="profiles")
def run(
    store: CaptureStore, *, seed: int = 0, permutations: int = 999, most_images: int = 5000
) -> Result:
    """Transitions between neighbouring layers, and paths through all (catalogue P4–P6).

    One assignment an image and layer: the largest share of the image's profile (the router's own
    choice where it routes whole images). Images that a layer did not route are left out.

    Parameters
    ----------
    seed, permutations
        Of the nulls, which shuffle the second layer's experts, or the labels.
    most_images
        Images of the path's AMI, drawn at random where there are more: its expected value under
        chance takes time that grows with paths × classes.

    Raises
    ------
    Refusal
        The store has one layer.
    """
    if len(store.layers) < 2:
        raise Refusal(
            f"paths need two layers, and {store.path} has one; capture more with --layers"
        )
    shares = [image_shares(store, spec.key) for spec in store.layers]
    valid = np.all([np.isfinite(rows).all(axis=1) for rows in shares], axis=0)
    top = np.stack([np.nan_to_num(rows).argmax(axis=1)[valid] for rows in shares], axis=1)
    names = [spec.key for spec in store.layers]
    pairs = [f"{first}→{second}" for first, second in pairwise(names)]
    found = Findings(pairs, KINDS)
    for place, pair in enumerate(pairs):
        _note_pair(found, store, pair, place, top, permutations, seed)
    scalars = _path_scalars(store, top, valid, permutations, seed, most_images)
    return Result(
        name="paths",
        quantities={**found.quantities(), **scalars},
        coords={"pair": pairs},
        n=len(top),
        summary=_summary(found, pairs, scalars, len(top)),
        warnings=(*argmax_warnings(store), *_warnings(scalars, len(top))),
    )


def _note_pair(
    found: Findings,
    store: CaptureStore,
    pair: str,
    place: int,
    top: IntArray,
    draws: int,
    seed: int,
) -> None:
    sizes = (store.layers[place].experts, store.layers[place + 1].experts)
    first, second = top[:, place], top[:, place + 1]
    counts = metrics.contingency_table(first, second, classes=sizes[0], experts=sizes[1])
    joint = counts / max(len(top), 1)
    chance = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    found.note(pair, "transition", joint, chance=chance)
    probability = metrics.transition_matrix(first, second, experts=sizes)
    by_chance = np.broadcast_to(joint.sum(axis=0), joint.shape)
    found.note(pair, "transition_probability", probability, chance=by_chance)
    ami, p, reason = _association(first, second, draws, seed)
    found.note(pair, "transition_ami", ami, chance=0, p=p, reason=reason)


def _association(a: IntArray, b: IntArray, draws: int, seed: int) -> tuple[float, float, str]:
    """AMI of two labellings of the same images, its permutation p, and why there is none.

    Shuffling keeps both margins, so p is that of the mutual information, which is cheaper.
    """
    ami = metrics.ami_score(a, b)
    if not np.isfinite(ami):
        return ami, np.nan, "degenerate: one group holds all images"
    rows, columns = (np.unique(side, return_inverse=True)[1] for side in (a, b))
    null = [
        metrics.table_information(metrics.contingency_table(rows, shuffled))
        for shuffled in metrics.shuffles(columns, draws, seed=seed)
    ]
    observed = metrics.table_information(metrics.contingency_table(rows, columns))
    return ami, metrics.against_null(observed, null).p, ""


def _path_scalars(
    store: CaptureStore,
    top: IntArray,
    valid: NDArray[np.bool_],
    draws: int,
    seed: int,
    most_images: int,
) -> dict[str, Quantity]:
    entropy, unique = metrics.path_entropy(top), np.unique(metrics.path_numbers(top)).size
    nominal = sum(_nominal(spec) for spec in store.layers)
    known = labelled(store)
    labels = np.where(store.labels >= 0, store.labels, -1)[valid]
    chosen = np.flatnonzero(labels >= 0)
    if len(chosen) > most_images:
        chosen = np.sort(np.random.default_rng(seed).choice(chosen, most_images, replace=False))
    ami, p, reason = np.nan, np.nan, known.reason
    if not reason:
        ami, p, reason = _association(
            metrics.path_numbers(top[chosen]), labels[chosen], draws, seed
        )
    apart = metrics.shuffled_path_entropy(top, permutations=min(draws, MOST_SHUFFLES), seed=seed)
    values = {
        "path_entropy": entropy,
        "effective_paths": float(np.exp(entropy)),
        "unique_paths": float(unique),
        "path_ami": ami,
        "nominal_degree_log": nominal,
        "utilization": entropy / nominal if nominal > 0 else np.nan,
    }
    chance = {
        "path_ami": 0.0,
        "path_entropy": apart,
        "effective_paths": float(np.exp(apart)),
        "utilization": apart / nominal if nominal > 0 else np.nan,
    }
    return {
        name: Quantity(
            value=np.asarray(value),
            chance=np.asarray(chance[name]) if name in chance else None,
            p=np.asarray(p) if name == "path_ami" else None,
            unit=SCALARS[name].unit,
            meaning=SCALARS[name].meaning,
            reason=reason if name == "path_ami" else "",
        )
        for name, value in values.items()
    }


def _nominal(spec: RouterSpec) -> float:
    """Ln of the expert combinations that a layer offers: C(E, k), and E where routing is soft."""
    return metrics.nominal_degree_log(spec.experts, spec.k or 1, 1)


def _warnings(scalars: dict[str, Quantity], images: int) -> list[str]:
    unique = float(scalars["unique_paths"].value)
    if images and unique > 0.5 * images:
        return [
            f"{unique:,.0f} of {images:,} images have a path of their own, so homogeneity would be "
            "high by construction; only the adjusted numbers mean anything."
        ]
    return []


def _summary(found: Findings, pairs: list[str], scalars: dict[str, Quantity], images: int) -> str:
    ami = found.value("transition_ami")
    effective, unique = (float(scalars[n].value) for n in ("effective_paths", "unique_paths"))
    text = f"{images:,} images take {unique:,.0f} paths ({effective:.1f} in effect)"
    if np.isfinite(ami).any():
        best = int(np.nanargmax(ami))
        text += f"; layers tell most of each other at {pairs[best]} (AMI {ami[best]:.3f}, chance 0)"
    path_ami = float(scalars["path_ami"].value)
    if np.isfinite(path_ami):
        text += f"; path and class share an AMI of {path_ami:.3f} (chance 0)"
    return text + "."
