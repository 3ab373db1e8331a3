"""How does a Result become what a figure or a table needs, with its chance level and interval?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from routelab.figures import Caption, Group, Series
from routelab.records import Quantity, Result, RouterSpec
from routelab.report.content import Table

FloatArray = NDArray[np.float64]
MOST_WARNINGS = 4
"""That a figure carries under its title."""


def find(result: Result, name: str, *dims: str) -> Quantity | None:
    """The quantity of this name if the Result has it over these axes, and it is not all NaN."""
    quantity = result.quantities.get(name)
    if quantity is None or quantity.dims != dims or not np.isfinite(quantity.value).any():
        return None
    return quantity


def layers_of(result: Result) -> list[str]:
    """Layer names of a Result; a Result without a layer axis has none."""
    if "layer" in result.coords:
        return list(result.coords["layer"])
    sizes = [
        quantity.value.shape[quantity.dims.index("layer")]
        for quantity in result.quantities.values()
        if "layer" in quantity.dims
    ]
    return [str(place) for place in range(max(sizes, default=0))]


def series(result: Result, name: str) -> Series | None:
    """A line of a layer curve; `NAME_null_low` and `NAME_null_high` are its chance band."""
    quantity = find(result, name, "layer")
    if quantity is None:
        return None
    low, high = (find(result, f"{name}_null_{end}", "layer") for end in ("low", "high"))
    return Series(
        value=quantity.value,
        low=quantity.low,
        high=quantity.high,
        chance=quantity.chance,
        chance_low=None if low is None else low.value,
        chance_high=None if high is None else high.value,
    )


def curves(result: Result, names: Mapping[str, str]) -> dict[str, Series]:
    """Lines by label, for those quantities over layers that the Result has."""
    found = {label: series(result, name) for name, label in names.items()}
    return {label: line for label, line in found.items() if line is not None}


HALF_DRAWN = "images, half of them drawn"
"""What n counts where rows are sorted by one half and drawn by the other."""


def caption(
    result: Result,
    *quantities: Quantity | None,
    warnings: Sequence[str] = (),
    chance: str = "",
    of: str = "images",
) -> Caption:
    """n, chance level and interval of what is drawn, with the Result's own words for it.

    `chance` says it in words where the quantities hold no chance level, `of` what n counts.
    """
    present = [quantity for quantity in quantities if quantity is not None]
    # several lines have names of their own; their meanings stand under the section
    meanings = [present[0].meaning] if len(present) == 1 and present[0].meaning else []
    reasons = dict.fromkeys(quantity.reason for quantity in present if quantity.reason)
    return Caption(
        n=result.n,
        of=of,
        chance=chance_text(present) or chance,
        interval=interval_text(result, present),
        notes=(*meanings, *reasons),
        warnings=_few(merge(warnings)),
    )


def chance_text(quantities: Sequence[Quantity]) -> str:
    """The chance level in numbers: one, or the range over the places."""
    levels = [quantity.chance for quantity in quantities if quantity.chance is not None]
    together = np.concatenate([level.ravel() for level in levels]) if levels else np.zeros(0)
    together = together[np.isfinite(together)]
    if not together.size:
        return ""
    low, high = float(together.min()), float(together.max())
    return number(low) if number(low) == number(high) else f"{number(low)} to {number(high)}"


def interval_text(result: Result, quantities: Sequence[Quantity]) -> str:
    """What the bars are, where there are any."""
    if not any(quantity.low is not None for quantity in quantities):
        return ""
    level = float(result.parameters.get("confidence", 0.95))
    return f"{level:.0%}, over images"


def layer_warnings(result: Result, layer: str | None = None) -> tuple[str, ...]:
    """The warnings of a Result that name a layer, or those that name none."""
    mine = [warning for warning in result.warnings if named_layer(warning) == layer]
    return tuple(mine)


def merge(warnings: Sequence[str]) -> list[str]:
    """Warnings that differ in their layer alone become one that lists the other layers."""
    layers: dict[str, list[str]] = {}
    for warning in warnings:
        layer = named_layer(warning)
        text = warning if layer is None else warning.removeprefix(f"Layer {layer}")
        layers.setdefault(text, []).extend([] if layer is None else [layer])
    return [_with_layers(text, names) for text, names in layers.items()]


def _with_layers(text: str, layers: Sequence[str]) -> str:
    if not layers:
        return text
    others = f" (The same holds for layer {', '.join(layers[1:])}.)" if len(layers) > 1 else ""
    return f"Layer {layers[0]}{text}{others}"


def _few(warnings: Sequence[str]) -> tuple[str, ...]:
    """As many as a figure can carry; the report lists all of them at its top."""
    if len(warnings) <= MOST_WARNINGS:
        return tuple(warnings)
    left = len(warnings) - MOST_WARNINGS + 1
    return (*warnings[: MOST_WARNINGS - 1], f"{left} more warnings stand at the top of the report.")


def named_layer(warning: str) -> str | None:
    """The layer that a warning begins with ("Layer 06 is ..." or "Layer 06: ..."), or None."""
    found = re.match(r"Layer (\w+):? ", warning)
    return found[1] if found else None


def layer_table(result: Result, names: Mapping[str, str], title: str = "") -> Table | None:
    """One row a layer, one column a quantity over layers that the Result has; None without any."""
    found = {label: find(result, name, "layer") for name, label in names.items()}
    columns = {label: quantity for label, quantity in found.items() if quantity is not None}
    if not columns:
        return None
    layers = layers_of(result)
    rows = [
        [layer, *(cell(quantity, place) for quantity in columns.values())]
        for place, layer in enumerate(layers)
    ]
    return Table(["layer", *columns], rows, title)


def cell(quantity: Quantity, *place: int) -> str:
    """One number and, each in a line of its own, its interval, its chance level and its p."""
    lines = [number(float(quantity.value[place]))]
    if quantity.low is not None and quantity.high is not None and lines[0] != "–":
        low, high = (number(float(edge[place])) for edge in (quantity.low, quantity.high))
        lines.append(f"[{low}, {high}]")
    if quantity.chance is not None:
        lines.append(f"chance {number(float(quantity.chance[place]))}")
    if quantity.p is not None and np.isfinite(quantity.p[place]):
        lines.append(f"p {number(float(quantity.p[place]))}")
    return "\n".join(lines)


def number(value: float) -> str:
    """Three significant digits; a dash for NaN."""
    if not np.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    if abs(value) >= 1e4 or abs(value) < 1e-3:
        return f"{value:.2e}"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def expert_groups(spec: RouterSpec) -> list[Group]:
    """Expert groups of a layer, as figures mark them."""
    return [Group(group.name, group.start, group.stop) for group in spec.groups]


def groups_of(specs: Sequence[RouterSpec], layer: str) -> list[Group]:
    """Expert groups of the layer with this name; none where it is unknown."""
    return next((expert_groups(spec) for spec in specs if spec.key == layer), [])
