"""Can the class be read from routing, as far as it can be read from the features at all?"""

from __future__ import annotations

from routelab.figures import layer_curve
from routelab.report.content import Block, Material, Picture, Section, Words, parameters
from routelab.report.reading import caption, curves, find, layer_table, layers_of

ACCURACIES = {
    "routing_accuracy": "routing",
    "feature_accuracy": "features",
    "output_accuracy": "features after the layer",
    "ceiling_accuracy": "random projection to E dimensions",
    "control_accuracy": "shuffled labels",
}


def section(material: Material) -> Section | None:
    """Probe accuracies over the layers, and routing's efficiency."""
    result = material.results.get("probe")
    if result is None:
        return None
    blocks: list[Block] = [Words(result.summary)] if result.summary else []
    lines = curves(result, ACCURACIES)
    if lines:
        quantities = [find(result, name, "layer") for name in ACCURACIES]
        figure = layer_curve(
            lines,
            layers=layers_of(result),
            unit="balanced accuracy, held out",
            title="Linear probes for the class",
            caption=caption(result, *quantities, warnings=result.warnings),
            from_zero=True,
        )
        blocks.append(Picture(figure))
    efficiency = find(result, "efficiency", "layer")
    if efficiency is not None:
        figure = layer_curve(
            curves(result, {"efficiency": "measured"}),
            layers=layers_of(result),
            unit="efficiency",
            title="Routing efficiency",
            caption=caption(result, efficiency).noting(
                "(routing accuracy − chance) / (feature accuracy − chance)"
            ),
        )
        blocks.append(Picture(figure))
    table = layer_table(
        result,
        {**ACCURACIES, "efficiency": "efficiency", "gain": "gain of the layer"},
        "Probes by layer",
    )
    blocks += [table] if table else []
    return Section(
        "Probes",
        [*blocks, parameters(result)],
        "A linear gate cannot route by what is not linearly there: compare routing with features.",
    )
