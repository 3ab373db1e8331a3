"""Do images of one class take the same experts, more than chance would have it?"""

from __future__ import annotations

from routelab.figures import layer_curve, share_heatmap
from routelab.figures.axes import reach
from routelab.records import Quantity, Result
from routelab.report.content import Block, Material, Picture, Section, Words, parameters
from routelab.report.reading import (
    HALF_DRAWN,
    caption,
    curves,
    find,
    groups_of,
    layer_table,
    layer_warnings,
    layers_of,
)
from routelab.report.selection import fitting, profile_order, used_experts

CURVES: dict[str, tuple[str, dict[str, str]]] = {
    "Maximum share": ("share", {"max_share": "measured"}),
    "Routing contrast": ("contrast", {"contrast": "measured"}),
    "Adjusted mutual information": (
        "AMI",
        {"ami": "expert and label", "ami_prediction": "expert and prediction"},
    ),
    "Information about the class": ("nats", {"information": "measured"}),
}
COLUMNS = {
    "max_share": "max share",
    "normalized_max_share": "normalised",
    "contrast": "contrast",
    "ami": "AMI",
    "nmi": "NMI (inflates)",
    "eta_squared": "η²",
    "cramers_v": "Cramér's V",
    "reliability": "split-half correlation",
    "tie_fraction": "ties",
    "p_max_statistic": "p over all layers",
}


def section(material: Material) -> Section | None:
    """Curves over the layers, then class × expert heat maps drawn on the other half."""
    result = material.results.get("consistency")
    if result is None:
        return None
    blocks: list[Block] = [Words(result.summary)] if result.summary else []
    for title, (unit, names) in CURVES.items():
        lines = curves(result, names)
        if lines:
            figure = layer_curve(
                lines,
                layers=layers_of(result),
                unit=unit,
                title=title,
                caption=caption(
                    result,
                    *(find(result, name, "layer") for name in names),
                    warnings=result.warnings,
                ),
            )
            blocks.append(Picture(figure))
    table = layer_table(result, COLUMNS, "Consistency by layer")
    blocks += [table] if table else []
    blocks += heatmaps(material, result)
    return Section(
        "Class consistency",
        [*blocks, parameters(result)],
        "Does a class go to its own experts? A collapsed layer scores 1 on every class.",
    )


def heatmaps(material: Material, result: Result) -> list[Block]:
    """Class profiles of half B in the order of half A; of the first layers that fit."""
    drawn = find(result, "class_profile_b", "layer", "class", "expert")
    sorter = find(result, "class_profile_a", "layer", "class", "expert")
    if drawn is None:
        drawn, sorter = find(result, "class_profile", "layer", "class", "expert"), None
    if drawn is None:
        return []
    layers = layers_of(result)
    chosen = fitting(len(layers), drawn.value[0].size)
    blocks: list[Block] = [_heatmap(material, result, drawn, sorter, place) for place in chosen]
    left = [layers[place] for place in range(len(layers)) if place not in chosen]
    if left:
        blocks.append(
            Words(f"To keep this file small, heat maps of layers {', '.join(left)} are left out.")
        )
    return blocks


def _heatmap(
    material: Material, result: Result, drawn: Quantity, sorter: Quantity | None, place: int
) -> Picture:
    layer = layers_of(result)[place]
    share = drawn.value[place]
    experts = used_experts(share)
    groups = [g for g in groups_of(material.store.layers, layer) if g.start < experts]
    return Picture(
        share_heatmap(
            share[:, :experts],
            classes=result.axis("class", share.shape[0]),
            order=None if sorter is None else profile_order(sorter.value[place]),
            ceiling=reach(drawn.value),
            title=f"Class × expert, layer {layer}",
            caption=caption(
                result,
                drawn,
                warnings=layer_warnings(result, layer),
                of="images" if sorter is None else HALF_DRAWN,
            ),
            groups=groups,
        )
    )
