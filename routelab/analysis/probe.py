"""Can the class be read from routing, as far as it can be read from the features at all?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from routelab import metrics
from routelab.analysis.association import Z
from routelab.analysis.axes import layer_names
from routelab.analysis.findings import Findings, Kind
from routelab.analysis.question import asks
from routelab.analysis.reading import Labelled, image_shares, labelled, stratified, table
from routelab.records import Result, RouterSpec
from routelab.store import CaptureStore

FloatArray = NDArray[np.float64]

KINDS = {
    "routing_accuracy": Kind("balanced accuracy of a linear probe on the image profile, held out"),
    "feature_accuracy": Kind("the same on the mean patch token that enters the layer"),
    "ceiling_accuracy": Kind("the same on a random projection of those features to E dimensions"),
    "control_accuracy": Kind("the same as routing_accuracy with shuffled labels"),
    "output_accuracy": Kind("the same on the mean patch token that leaves the MoE layer"),
    "efficiency": Kind("(routing − chance) / (features − chance); NaN where features tell nothing"),
    "gain": Kind("output_accuracy − feature_accuracy, on the same splits"),
}


@asks("Can the class be read from routing, as far as features tell it?", level="profiles")
def run(
    store: CaptureStore,
    *,
    seed: int = 0,
    permutations: int = 999,
    splits: int = 3,
    most_images: int = 2000,
) -> Result:
    """Linear probes on routing and on features by layer (catalogue CC7, F4).

    A linear gate cannot express what is not linearly there: low accuracy of routing beside low
    accuracy of features is expected, beside high accuracy it is a failure of routing.

    Parameters
    ----------
    seed, splits
        Of the held-out splits, the same for every input.
    permutations
        Plays no part: chance is 1/C and the control's shuffled labels.
    most_images
        Labelled images that are read, drawn within class where there are more.
    """
    known = labelled(store)
    found = Findings(layer_names(store), KINDS)
    images = stratified(known.images, known.labels, most_images, seed)
    for spec in store.layers:
        if known.reason:
            for name in KINDS:
                found.note(spec.key, name, np.nan, reason=known.reason)
            continue
        _note_layer(found, store, spec, known, images, splits, seed)
    return Result(
        name="probe",
        quantities=found.quantities(),
        coords={"layer": layer_names(store)},
        n=len(images),
        summary=_summary(found, store, known),
        warnings=tuple(_warnings(store, known)),
    )


def _note_layer(
    found: Findings,
    store: CaptureStore,
    spec: RouterSpec,
    known: Labelled,
    images: NDArray[np.int64],
    splits: int,
    seed: int,
) -> None:
    labels = np.asarray(store.labels, dtype=np.int64)[images]
    profile = image_shares(store, spec.key)[images]
    routed = np.isfinite(profile).all(axis=1)
    routing = _probe(found, spec, "routing_accuracy", profile[routed], labels[routed], splits, seed)
    control = metrics.linear_probe(
        profile[routed], labels[routed], splits=splits, seed=seed, shuffled=True
    )
    found.note(spec.key, "control_accuracy", control.accuracy, chance=_chance(control))
    features = _features(store, spec, "pooled", images)
    if features is None:
        for name in ("feature_accuracy", "ceiling_accuracy", "efficiency", "output_accuracy"):
            found.note(spec.key, name, np.nan, reason="no pooled features in the store")
        return
    entering = _probe(found, spec, "feature_accuracy", features, labels, splits, seed)
    seen = metrics.random_projection(features, spec.experts, seed=seed)
    _probe(found, spec, "ceiling_accuracy", seen, labels, splits, seed)
    efficiency = metrics.probe_efficiency(routing, entering, classes=max(routing.classes, 1))
    reason = "" if np.isfinite(efficiency) else "features tell no more than chance"
    found.note(spec.key, "efficiency", efficiency, chance=0, reason=reason)
    leaving = _features(store, spec, "pooled_output", images)
    if leaving is not None:
        output = _probe(found, spec, "output_accuracy", leaving, labels, splits, seed)
        found.note(spec.key, "gain", output.accuracy - entering.accuracy, chance=0)


def _probe(
    found: Findings,
    spec: RouterSpec,
    name: str,
    rows: FloatArray,
    labels: NDArray[np.int64],
    splits: int,
    seed: int,
) -> metrics.Probe:
    probe = metrics.linear_probe(rows, labels, splits=splits, seed=seed)
    found.note(
        spec.key,
        name,
        probe.accuracy,
        chance=_chance(probe),
        low=max(probe.accuracy - Z * probe.error, 0),
        high=min(probe.accuracy + Z * probe.error, 1),
        reason="" if np.isfinite(probe.accuracy) else "fewer than two classes of four images",
    )
    return probe


def _chance(probe: metrics.Probe) -> float:
    return 1 / probe.classes if probe.classes else float("nan")


def _features(
    store: CaptureStore, spec: RouterSpec, name: str, images: NDArray[np.int64]
) -> FloatArray | None:
    values = table(store, spec.key, name)
    return None if values is None else values[images]


def _warnings(store: CaptureStore, known: Labelled) -> list[str]:
    few = [spec.key for spec in store.layers if spec.experts < known.classes]
    warned = []
    if few:
        warned.append(
            f"Layers {', '.join(few)} have fewer experts than the {known.classes} classes: E − 1 "
            "shares cannot tell more apart, so read routing accuracy against the ceiling."
        )
    if any("pooled" not in store.tables(spec.key) for spec in store.layers):
        warned.append(
            "Pooled features are missing, so routing cannot be held against them; capture with "
            "--features pooled."
        )
    return warned


def _summary(found: Findings, store: CaptureStore, known: Labelled) -> str:
    if known.reason:
        return f"Probes are undefined: {known.reason}."
    routing = found.value("routing_accuracy")
    if not np.isfinite(routing).any():
        return "Probes are undefined: fewer than two classes have four images."
    best = int(np.nanargmax(routing))
    quantity = found.quantities()["routing_accuracy"]
    chance = np.nan if quantity.chance is None else quantity.chance[best]
    text = (
        f"Routing tells the class best in layer {store.layers[best].key}: {routing[best]:.1%} of "
        f"held-out images (chance {chance:.1%})"
    )
    features, efficiency = found.value("feature_accuracy"), found.value("efficiency")
    if np.isfinite(features[best]):
        text += f", where features tell {features[best]:.1%}"
    if np.isfinite(efficiency[best]):
        text += f", an efficiency of {efficiency[best]:.2f}"
    return text + "."
