"""Which MoE layers does `--layers` name?"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

from routelab.records import Refusal, RouterSpec

_ITEM = re.compile(r"(\d+)(?:-(\d+))?")


def select_layers(wanted: str, specs: Sequence[RouterSpec]) -> tuple[RouterSpec, ...]:
    """The layers that `wanted` names, in depth order: "all", numbers, ranges, or dotted paths.

    Raises
    ------
    Refusal
        If an item is not a MoE layer of the model; the nearest names are given.
    """
    if wanted.strip() == "all":
        return tuple(specs)
    chosen: set[str] = set()
    for item in filter(None, (part.strip() for part in wanted.split(","))):
        chosen.update(_named_by(item, specs))
    if not chosen:
        raise Refusal(f'--layers "{wanted}" names no layer; write for example 6-11, 6,8 or all')
    return tuple(spec for spec in specs if spec.layer in chosen)


def _named_by(item: str, specs: Sequence[RouterSpec]) -> Iterable[str]:
    """Dotted paths of the layers that one item names."""
    number = _ITEM.fullmatch(item)
    if number is None:
        if item in {spec.layer for spec in specs}:
            return [item]
        raise Refusal(_not_moe(item, specs))
    first = int(number[1])
    last = int(number[2] or first)
    depths = {spec.depth: spec.layer for spec in specs}
    missing = [depth for depth in range(first, last + 1) if depth not in depths]
    if missing or last < first:
        raise Refusal(_not_moe(str(missing[0]) if missing else item, specs))
    return [depths[depth] for depth in range(first, last + 1)]


def _not_moe(item: str, specs: Sequence[RouterSpec]) -> str:
    """One sentence: not a MoE layer, and which ones are near it."""
    if item.isdigit():
        near = sorted(specs, key=lambda spec: abs(spec.depth - int(item)))[:3]
        names = [str(spec.depth) for spec in sorted(near, key=lambda spec: spec.depth)]
    else:
        paths = [spec.layer for spec in specs]
        names = difflib.get_close_matches(item, paths, n=3, cutoff=0.0)
    return f"layer {item} is not a MoE layer of this model; the nearest are {', '.join(names)}"
