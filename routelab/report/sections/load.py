"""Do the experts share the work, or has the layer collapsed?"""

from __future__ import annotations

import numpy as np

from routelab.figures import expert_atlas, layer_curve, load_bars
from routelab.records import Quantity, Result
from routelab.report.content import Block, Material, Picture, Section, Words, parameters
from routelab.report.reading import (
    caption,
    curves,
    expert_groups,
    find,
    groups_of,
    layer_table,
    layers_of,
)

COLUMNS = {
    "cv2": "CV²",
    "max_violation": "max violation",
    "normalized_entropy": "entropy / ln E",
    "effective_experts": "effective experts",
    "dropped": "dropped share",
    "hardness": "hardness",
    "margin": "margin",
}
ENTROPIES = {
    "token_entropy": "of one token",
    "marginal_entropy": "of the mean",
    "routing_information": "difference: routing information",
}


def section(material: Material) -> Section | None:
    """Load bars, the atlas of all layers, entropies and a table."""
    result = material.results.get("load")
    if result is None:
        return None
    blocks: list[Block] = [Words(result.summary)] if result.summary else []
    share = find(result, "share", "layer", "expert")
    if share is not None:
        blocks += [_atlas(material, result, share), _bars(material, result, share)]
    lines = curves(result, ENTROPIES)
    if lines:
        quantities = [find(result, name, "layer") for name in ENTROPIES]
        blocks.append(
            Picture(
                layer_curve(
                    lines,
                    layers=layers_of(result),
                    unit="nats",
                    title="Entropy of routing",
                    caption=caption(
                        result, *quantities, chance="uniform routing: ln E, ln E and 0"
                    ),
                    from_zero=True,
                )
            )
        )
    table = layer_table(result, COLUMNS, "Load by layer")
    blocks += [table] if table else []
    return Section(
        "Load and collapse",
        [*blocks, parameters(result)],
        "Which experts do the work? Read from combine weights or gates, never from dispatch.",
    )


def _atlas(material: Material, result: Result, share: Quantity) -> Picture:
    experts = np.isfinite(share.value).sum(axis=1, keepdims=True)
    specs = material.store.layers
    alike = len({spec.groups for spec in specs}) == 1
    return Picture(
        expert_atlas(
            share.value * experts,
            layers=layers_of(result),
            title="Load of every expert",
            caption=caption(result, share, warnings=result.warnings),
            groups=expert_groups(specs[0]) if alike else (),
        )
    )


def _bars(material: Material, result: Result, share: Quantity) -> Picture:
    layers = layers_of(result)
    dead = result.quantities.get("dead")
    cold = result.quantities.get("cold")
    return Picture(
        load_bars(
            share.value,
            layers=layers,
            title="Share of the load, by layer",
            caption=caption(result, share),
            groups=[groups_of(material.store.layers, layer) for layer in layers],
            dead=None if dead is None else dead.value,
            cold=None if cold is None else cold.value,
        )
    )
