"""Which experts serve the same tokens?"""

from __future__ import annotations

from routelab.figures import expert_matrices
from routelab.records import Quantity, Result
from routelab.report.content import Block, Material, Picture, Section, Words, parameters
from routelab.report.reading import caption, find, layers_of
from routelab.report.selection import fitting, used_experts


def section(material: Material) -> Section | None:
    """Lift matrices around 1, and the conditional matrix itself."""
    result = material.results.get("coactivation")
    if result is None:
        return None
    blocks: list[Block] = [Words(result.summary)] if result.summary else []
    lift = find(result, "lift", "layer", "expert", "expert2")
    if lift is not None:
        blocks.append(_matrices(result, lift, "lift", "Co-activation against independence", 1.0))
    matrix = find(result, "matrix", "layer", "expert", "expert2")
    if matrix is not None:
        blocks.append(
            _matrices(result, matrix, "share of i", "Co-activation: who else serves i's tokens")
        )
    return Section("Co-activation", [*blocks, parameters(result)], "Which experts work together?")


def _matrices(
    result: Result, quantity: Quantity, unit: str, title: str, middle: float | None = None
) -> Picture:
    layers = layers_of(result)
    panels = {}
    for place in fitting(len(layers), quantity.value[0].size):
        values = quantity.value[place]
        experts = used_experts(values, values.T)
        panels[f"layer {layers[place]}"] = values[:experts, :experts]
    return Picture(
        expert_matrices(
            panels,
            unit=unit,
            title=title,
            caption=caption(result, quantity, warnings=result.warnings),
            middle=middle,
        )
    )
