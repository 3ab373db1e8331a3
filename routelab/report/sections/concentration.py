"""How few tokens make up a slot, and how few slots make up a token?"""

from __future__ import annotations

import re

import numpy as np

from routelab.figures import MassCurve, layer_curve, mass_curves
from routelab.records import Quantity, Result
from routelab.report.content import Block, Material, Picture, Section, Words, parameters
from routelab.report.reading import caption, curves, find, layer_table, layers_of

COLUMNS = {
    "effective_tokens": "effective tokens a slot",
    "token_total_below": "tokens hardly used",
    "token_total_above": "tokens used much",
    "redundancy_within": "slot similarity within an expert",
    "redundancy_between": "between experts",
}
REDUNDANCY = {"redundancy_within": "within an expert", "redundancy_between": "between experts"}


def section(material: Material) -> Section | None:
    """Cumulative mass curves of dispatch and combine, slot redundancy and a table."""
    result = material.results.get("concentration")
    if result is None:
        return None
    blocks: list[Block] = [Words(result.summary)] if result.summary else []
    for name, of, title in (
        ("dispatch_curve", "tokens", "Tokens that make up a slot (dispatch)"),
        ("combine_curve", "slots", "Slots that make up a token (combine)"),
    ):
        curve = find(result, name, "layer", "fraction")
        if curve is not None:
            blocks.append(_curves(result, name, curve, of, title))
    lines = curves(result, REDUNDANCY)
    if lines:
        figure = layer_curve(
            lines,
            layers=layers_of(result),
            unit="cosine of dispatch weights",
            title="Do slots look at the same tokens?",
            caption=caption(result, *(find(result, name, "layer") for name in REDUNDANCY)),
        )
        blocks.append(Picture(figure))
    table = layer_table(result, COLUMNS, "Concentration by layer")
    blocks += [table] if table else []
    return Section(
        "Slot concentration",
        [*blocks, parameters(result)],
        "Does a slot read a few tokens or all of them?",
    )


def _curves(result: Result, name: str, curve: Quantity, of: str, title: str) -> Picture:
    fraction = [float(word) for word in result.axis("fraction", curve.value.shape[1])]
    if max(fraction, default=0) > 1:
        fraction = list(np.linspace(0, 1, len(fraction)))
    bands = _bands(result, name)
    panels = {
        f"layer {layer}": MassCurve(
            curve.value[place],
            {percent: (low[place], high[place]) for percent, (low, high) in bands.items()},
        )
        for place, layer in enumerate(layers_of(result))
        if np.isfinite(curve.value[place]).any()
    }
    return Picture(
        mass_curves(
            panels,
            fraction=fraction,
            of=of,
            title=title,
            caption=caption(result, curve, chance="uniform weights, the diagonal"),
        )
    )


def _bands(
    result: Result, name: str
) -> dict[float, tuple[np.ndarray[tuple[int, ...], np.dtype[np.float64]], ...]]:
    """Central bands from quantile curves `NAME_p05`, `NAME_p95` (percent; `p005` is 0.5)."""
    quantiles = {
        _percent(match[1]): quantity.value
        for other, quantity in result.quantities.items()
        if (match := re.fullmatch(rf"{re.escape(name)}_p(\d+)", other))
    }
    return {
        100 - 2 * low: (quantiles[low], quantiles[100 - low])
        for low in quantiles
        if low < 50 and 100 - low in quantiles
    }


def _percent(digits: str) -> float:
    """`05` is 5, `95` is 95, `005` is 0.5 and `995` is 99.5."""
    return float(digits[:2] + "." + (digits[2:] or "0"))
