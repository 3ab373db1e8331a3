"""How much of routing is about the class, the image, the token, or nothing?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from routelab.figures import budget_stack, layer_curve
from routelab.records import Quantity, Result
from routelab.report.content import Block, Material, Picture, Section, Words, parameters
from routelab.report.reading import caption, curves, find, layer_table, layers_of

TERMS = ("class", "image", "token", "residual")
CURVES = {
    "position_information": ("Information about the place in the image", "nats"),
    "coherence": ("Neighbouring patches with the same expert", "share of pairs"),
    "disagreement": ("Tokens whose expert is not their image's", "share of tokens"),
}


def section(material: Material) -> Section | None:
    """The budget as stacked bars, raw and corrected for chance, and the spatial curves."""
    result = material.results.get("information")
    if result is None:
        return None
    blocks: list[Block] = [Words(result.summary)] if result.summary else []
    for name, title in (
        ("budget", "Information budget"),
        ("budget_corrected", "Information budget above chance"),
    ):
        budget = find(result, name, "layer", "term")
        if budget is not None:
            blocks.append(_stack(material, result, budget, title))
    for name, (title, unit) in CURVES.items():
        quantity = find(result, name, "layer")
        if quantity is not None:
            figure = layer_curve(
                curves(result, {name: "measured"}),
                layers=layers_of(result),
                unit=unit,
                title=title,
                caption=caption(result, quantity),
                from_zero=True,
            )
            blocks.append(Picture(figure))
    table = layer_table(result, {name: title for name, (title, _) in CURVES.items()})
    blocks += [table] if table else []
    return Section(
        "Information budget",
        [*blocks, parameters(result)],
        "Would one decision for the whole image have said the same?",
    )


def _stack(material: Material, result: Result, budget: Quantity, title: str) -> Picture:
    names = result.coords.get("term", list(TERMS))
    experts = {spec.key: spec.experts for spec in material.store.layers}
    layers = layers_of(result)
    return Picture(
        budget_stack(
            {name: budget.value[:, place] for place, name in enumerate(names)},
            layers=layers,
            intervals=_intervals(budget, names),
            ceiling=np.log([experts.get(layer, np.nan) for layer in layers]),
            title=title,
            caption=caption(
                result,
                budget,
                warnings=result.warnings,
                chance="uniform routing is all residual, ln E",
            ),
        )
    )


def _intervals(
    budget: Quantity, names: Sequence[str]
) -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Ends of each term's interval; empty where the Result has none."""
    if budget.low is None or budget.high is None:
        return {}
    return {name: (budget.low[:, at], budget.high[:, at]) for at, name in enumerate(names)}
