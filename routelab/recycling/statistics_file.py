"""How are activation statistics kept for the next run? One safetensors file that knows its source.

Tensors `LAYER.NAME`; the file's metadata hold the SHA-256 of model and images, and the cost.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from routelab.records import Refusal
from routelab.recycling.cost import Cost
from routelab.recycling.statistics import ActivationStatistics, Kind, LayerStatistics

KEY = "routelab.activation-statistics"
FORMAT = 1
ARRAYS = tuple(f.name for f in dataclasses.fields(LayerStatistics) if f.name != "tokens")


def save_statistics(path: Path, statistics: ActivationStatistics) -> None:
    """Write statistics in one step.

    Raises
    ------
    Refusal
        If the file cannot be written.
    """
    tensors, tokens = {}, {}
    for depth, layer in statistics.layers.items():
        tokens[str(depth)] = layer.tokens
        for name in ARRAYS:
            array = getattr(layer, name)
            if array is not None:
                tensors[f"{depth}.{name}"] = np.ascontiguousarray(array)
    facts = {
        "format": FORMAT,
        "tokens": tokens,
        "images": statistics.images,
        "coactivation": statistics.coactivation,
        "source": statistics.source,
        "data": statistics.data,
        "cost": statistics.cost.model_dump(),
    }
    temporary = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(tensors, temporary, metadata={KEY: json.dumps(facts)})
        temporary.replace(path)
    except (OSError, SafetensorError) as error:
        temporary.unlink(missing_ok=True)
        raise Refusal(f"statistics {path} could not be written: {error}") from error


def load_statistics(
    path: Path,
    *,
    source: str = "",
    data: str = "",
    layers: Collection[int] = (),
    coactivation: Kind = "none",
) -> ActivationStatistics:
    """Statistics of a file, if they are of this model and these images and hold what is needed.

    Raises
    ------
    Refusal
        Not such a file, of another model or other images ("" asks for none), or without a layer or
        the co-activation that is needed.
    """
    found = _read(path)
    again = "delete the file to have it made again, or give another --statistics"
    if source and found.source != source:
        raise Refusal(f"statistics {path} are of another model ({found.source[:12]}); {again}")
    if data and found.data != data:
        raise Refusal(f"statistics {path} are of other images ({found.images} of them); {again}")
    missing = sorted(set(layers) - set(found.layers))
    if missing:
        raise Refusal(f"statistics {path} have no layer {missing[0]}; {again}")
    if coactivation not in ("none", found.coactivation):
        raise Refusal(
            f"statistics {path} hold co-activation of kind {found.coactivation!r}, "
            f"not {coactivation!r}; {again}"
        )
    return found


def _read(path: Path) -> ActivationStatistics:
    try:
        with safe_open(path, framework="np") as file:
            facts = json.loads((file.metadata() or {}).get(KEY, "null"))
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, ValueError) as error:
        raise Refusal(f"statistics {path} cannot be read ({error}); delete the file") from error
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise Refusal(f"{path} is not a file of activation statistics; give another --statistics")
    layers = {}
    for depth, tokens in facts["tokens"].items():
        own: dict[str, Any] = {name: arrays.get(f"{depth}.{name}") for name in ARRAYS}
        layers[int(depth)] = LayerStatistics(tokens=tokens, **own)
    return ActivationStatistics(
        layers,
        images=facts["images"],
        coactivation=facts["coactivation"],
        source=facts["source"],
        data=facts["data"],
        cost=Cost.model_validate(facts["cost"]),
    )
