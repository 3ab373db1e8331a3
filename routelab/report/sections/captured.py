"""What was captured, from which model and data, and what does the capture prove about itself?"""

from __future__ import annotations

import numpy as np

from routelab.metrics import wilson_interval
from routelab.records import Check, ModelCard, RouterSpec
from routelab.report.content import Block, Details, Facts, Material, Section, Table
from routelab.report.reading import number


def section(material: Material) -> Section:
    """Cards, layers, certificate and accuracy."""
    card = material.card
    blocks: list[Block] = [
        Facts([*_model(card.model), *_data(material), *_accuracy(material)]),
        Table(
            ["layer", "module", "router", "experts", "slots or k", "tokens", "shared expert"],
            [_layer(spec) for spec in material.store.layers],
            "Layers",
        ),
        Table(
            ["check", "result", "measured", "allowed", "detail"],
            [_check(check) for check in card.certificate.checks],
            "Certificate",
            marked=frozenset(c.name for c in card.certificate.checks if not c.passed),
        ),
    ]
    if card.refused:
        blocks.append(Table(["layer", "reason"], [*card.refused.items()], "Layers left out"))
    blocks.append(Details("how this was captured", _capture(material)))
    return Section(
        "What was captured", blocks, "Which model, which images, and is the capture whole?"
    )


def _model(model: ModelCard) -> list[tuple[str, str]]:
    spec = model.spec
    rows = [("model", model.architecture), ("weights from", model.source or "not stated")]
    if spec is not None:
        groups = ", ".join(
            f"{group.experts} {group.name} (hidden width × {group.hidden_ratio:g}, "
            f"{group.slots} slot{'s' if group.slots > 1 else ''} each)"
            for group in spec.groups
        )
        rows += [("router", spec.router.kind), ("experts a layer", groups)]
    return [*rows, ("SHA-256", model.sha256 or "not stated")]


def _data(material: Material) -> list[tuple[str, str]]:
    data, store = material.card.data, material.store
    split = f", {data.split}" if data.split else ""
    return [
        ("data", f"{data.source}{split}"),
        ("images", f"{store.committed:,}, {store.full:,} of them with full routing"),
        ("classes", f"{len(data.classes):,}"),
    ]


def _accuracy(material: Material) -> list[tuple[str, str]]:
    labels, predictions = material.store.labels, material.store.predictions
    known = (labels >= 0) & (predictions >= 0)
    n = int(known.sum())
    if n == 0:
        return [("accuracy", "undefined: no image has a label and a prediction")]
    right = int((labels[known] == predictions[known]).sum())
    interval = wilson_interval(right, n)
    chance = np.bincount(labels[known]).max() / n
    between = f"95 % Wilson interval {interval.low:.1%} to {interval.high:.1%}"
    baseline = f"always the commonest class: {chance:.1%}"
    return [("accuracy", f"{right / n:.1%} of {n:,} ({between}; {baseline})")]


def _layer(spec: RouterSpec) -> list[str]:
    grid = f" on {spec.grid[0]} × {spec.grid[1]}" if spec.grid else ""
    experts = " + ".join(f"{g.stop - g.start} {g.name}" for g in spec.groups)
    absent = f", {len(spec.absent)} absent" if spec.absent else ""
    return [
        spec.key,
        spec.layer,
        spec.kind,
        experts + absent,
        f"{spec.slots} slots" if spec.soft else f"k = {spec.k}",
        f"{spec.tokens} ({spec.prefix} prefix){grid}",
        "yes" if spec.shared else "no",
    ]


def _check(check: Check) -> list[str]:
    measured, allowed = (
        "" if value is None else number(value) for value in (check.value, check.limit)
    )
    return [check.name, "✓ passed" if check.passed else "✗ failed", measured, allowed, check.detail]


def _capture(material: Material) -> list[tuple[str, str]]:
    capture = material.card.capture
    rows = [(name, str(value)) for name, value in capture.model_dump(exclude={"versions"}).items()]
    return [*rows, *capture.versions.items()]
