"""Which expert is for which class?"""

from __future__ import annotations

import numpy as np

from routelab.figures import lift_heatmap
from routelab.records import Quantity, Result
from routelab.report.content import Block, Material, Picture, Section, Table, Words, parameters
from routelab.report.reading import (
    HALF_DRAWN,
    caption,
    cell,
    find,
    groups_of,
    layer_warnings,
    layers_of,
    number,
)
from routelab.report.selection import fitting, profile_order, used_experts

MOST_ROWS = 24
COLUMNS = {
    "purity": "purity",
    "class_entropy": "class entropy, nats",
    "divergence": "divergence from the class mix",
    "selectivity": "selectivity (other half)",
}


def section(material: Material) -> Section | None:
    """Lift heat maps and a table of the purest experts of each layer."""
    result = material.results.get("specialization")
    if result is None:
        return None
    blocks: list[Block] = [Words(result.summary)] if result.summary else []
    blocks += _lifts(material, result)
    blocks += _tables(result)
    return Section(
        "Specialization",
        [*blocks, parameters(result)],
        "Which classes does an expert serve more than their share?",
    )


def _lifts(material: Material, result: Result) -> list[Block]:
    lift = find(result, "log_lift", "layer", "class", "expert")
    if lift is None:
        return []
    layers = layers_of(result)
    return [
        _lift(material, result, lift, place) for place in fitting(len(layers), lift.value[0].size)
    ]


def _lift(material: Material, result: Result, lift: Quantity, place: int) -> Picture:
    layer = layers_of(result)[place]
    values = lift.value[place]
    experts = used_experts(values)
    return Picture(
        lift_heatmap(
            values[:, :experts],
            classes=result.axis("class", values.shape[0]),
            order=_order_of_other_half(material, layer),
            title=f"Lift of classes in experts, layer {layer}",
            caption=caption(result, lift, warnings=layer_warnings(result, layer), of=HALF_DRAWN),
            groups=[g for g in groups_of(material.store.layers, layer) if g.start < experts],
        )
    )


def _order_of_other_half(material: Material, layer: str) -> list[int] | None:
    """The order that the consistency analysis found on half A; None where it was not run."""
    other = material.results.get("consistency")
    half = None if other is None else find(other, "class_profile_a", "layer", "class", "expert")
    if other is None or half is None or layer not in layers_of(other):
        return None
    return profile_order(half.value[layers_of(other).index(layer)])


def _tables(result: Result) -> list[Block]:
    columns = {
        label: quantity
        for name, label in COLUMNS.items()
        if (quantity := find(result, name, "layer", "expert")) is not None
    }
    if not columns:
        return []
    return [_table(result, columns, place, layer) for place, layer in enumerate(layers_of(result))]


def _table(result: Result, columns: dict[str, Quantity], place: int, layer: str) -> Table:
    """Experts by purity above chance, the surest first."""
    first = next(iter(columns.values()))
    excess = first.value[place] - (0 if first.chance is None else first.chance[place])
    experts = np.argsort(-np.nan_to_num(excess, nan=-np.inf), kind="stable")[:MOST_ROWS]
    experts = experts[np.isfinite(first.value[place][experts])]
    top = find(result, "top_class", "layer", "expert")
    rows = []
    for expert in experts:
        name = "" if top is None else _class_name(result, float(top.value[place, expert]))
        numbers = [cell(quantity, place, int(expert)) for quantity in columns.values()]
        rows.append([str(expert), name, *numbers])
    more = "" if len(experts) < MOST_ROWS else f", the {MOST_ROWS} surest"
    return Table(["expert", "top class", *columns], rows, f"Experts of layer {layer}{more}")


def _class_name(result: Result, index: float) -> str:
    names = result.coords.get("class", [])
    if not np.isfinite(index) or index < 0:
        return "–"
    return names[int(index)] if int(index) < len(names) else number(index)
