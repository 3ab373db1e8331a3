"""Which ways do images take through the layers?"""

from __future__ import annotations

import numpy as np

from routelab.figures import Series, expert_flow, layer_curve
from routelab.records import Quantity, Result
from routelab.report.content import Block, Facts, Material, Picture, Section, Words, parameters
from routelab.report.reading import caption, cell, find

SCALARS = {
    "effective_paths": "effective paths",
    "path_entropy": "path entropy, nats",
    "path_ami": "AMI of path and class",
    "nominal_degree_log": "ln of nominal routing degree",
    "unique_paths": "unique paths",
    "utilization": "ln effective / ln nominal",
}
THRESHOLD = 0.02


def section(material: Material) -> Section | None:
    """The flow between neighbouring layers, how far it is predictable, and counts of paths."""
    result = material.results.get("paths")
    if result is None:
        return None
    blocks: list[Block] = [Words(result.summary)] if result.summary else []
    facts = [
        (label, cell(quantity).replace("\n", ", "))
        for name, label in SCALARS.items()
        if (quantity := find(result, name)) is not None
    ]
    blocks += [Facts(facts)] if facts else []
    transition = find(result, "transition", "pair", "expert", "expert2")
    if transition is not None:
        blocks.append(_flow(material, result, transition))
    ami = find(result, "transition_ami", "pair")
    if ami is not None:
        figure = layer_curve(
            {"AMI": Series(value=ami.value, low=ami.low, high=ami.high, chance=ami.chance)},
            layers=result.axis("pair", ami.value.shape[0]),
            unit="AMI",
            title="Does one layer's expert tell the next one's?",
            caption=caption(result, ami),
        )
        blocks.append(Picture(figure))
    return Section("Flow and paths", [*blocks, parameters(result)], "Which experts follow which?")


def _flow(material: Material, result: Result, transition: Quantity) -> Picture:
    joint = [np.nan_to_num(pair) for pair in transition.value]
    total = [pair / pair.sum() if pair.sum() > 0 else pair for pair in joint]
    layers = [spec.key for spec in material.store.layers]
    if len(layers) != len(total) + 1:
        layers = [str(place) for place in range(len(total) + 1)]
    return Picture(
        expert_flow(
            total,
            layers=layers,
            threshold=THRESHOLD,
            title="Flow between neighbouring layers",
            caption=caption(result, transition, chance="product of the two loads, pair by pair"),
        )
    )
