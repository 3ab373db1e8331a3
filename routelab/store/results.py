"""How is a Result saved beside the data that it came from, and read back exactly?

Each is one Zarr group without arrays, `results/NAME/`, with everything in its attributes: one file,
replaced in one step. JSON has no NaN, so null stands for it; Python writes floats in the shortest
form that reads back as the same float64.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from routelab.records import Quantity, Refusal, Result
from routelab.store.layout import METADATA, read_attributes, write_group
from routelab.store.shards import damaged

OPTIONAL = ("chance", "low", "high", "p")
INFINITE = {"Infinity": math.inf, "-Infinity": -math.inf}


def save(path: Path, result: Result) -> None:
    """Write `results/NAME/`, replacing one of the same name.

    Raises
    ------
    ValueError
        The name cannot be a folder's, or a parameter is not a JSON value.
    """
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", result.name):
        raise ValueError(f"a Result's name must be a plain word, not {result.name!r}")
    parameters = dict(result.parameters)
    if json.loads(json.dumps(parameters)) != parameters:
        raise ValueError(f"parameters of {result.name} must be JSON values: {parameters}")
    (path / "results").mkdir(exist_ok=True)
    write_group(
        path / "results" / result.name,
        {
            "name": result.name,
            "n": result.n,
            "summary": result.summary,
            "warnings": list(result.warnings),
            "coords": {dim: list(labels) for dim, labels in result.coords.items()},
            "parameters": parameters,
            "quantities": {name: _encode(quantity) for name, quantity in result.quantities.items()},
        },
    )


def load(path: Path, name: str) -> Result:
    """Read a Result back.

    Raises
    ------
    Refusal
        There is none of this name, or its file is damaged.
    """
    file = path / "results" / name / METADATA
    try:
        stored = read_attributes(file.parent)
        quantities = {key: _decode(quantity) for key, quantity in stored["quantities"].items()}
        return Result(
            name=stored["name"],
            quantities=quantities,
            coords=stored["coords"],
            parameters=stored["parameters"],
            n=stored["n"],
            summary=stored["summary"],
            warnings=tuple(stored["warnings"]),
        )
    except FileNotFoundError:
        there = ", ".join(names(path)) or "none yet"
        raise Refusal(
            f"{path} holds no result {name!r} (it holds: {there}); make it with "
            f"`routelab analyze {path}`"
        ) from None
    except (ValueError, KeyError, TypeError):
        raise damaged(file) from None


def names(path: Path) -> tuple[str, ...]:
    """Names of the saved Results, sorted."""
    return tuple(sorted(file.parent.name for file in (path / "results").glob(f"*/{METADATA}")))


def _encode(quantity: Quantity) -> dict[str, Any]:
    arrays = {name: getattr(quantity, name) for name in ("value", *OPTIONAL)}
    return {
        "dims": list(quantity.dims),
        "shape": list(quantity.value.shape),
        "unit": quantity.unit,
        "meaning": quantity.meaning,
        "reason": quantity.reason,
        **{name: None if array is None else _numbers(array) for name, array in arrays.items()},
    }


def _decode(stored: dict[str, Any]) -> Quantity:
    shape = tuple(stored["shape"])
    arrays = {name: _array(stored[name], shape) for name in OPTIONAL if stored[name] is not None}
    return Quantity(
        value=_array(stored["value"], shape),
        dims=tuple(stored["dims"]),
        unit=stored["unit"],
        meaning=stored["meaning"],
        reason=stored["reason"],
        **arrays,
    )


def _numbers(array: NDArray[np.float64]) -> list[float | str | None]:
    """Values in row-major order; null for NaN, a word for infinity."""
    flat: list[float | str | None] = [*array.ravel().tolist()]
    for place in np.flatnonzero(~np.isfinite(array)):
        number = array.flat[place]
        flat[place] = None if math.isnan(number) else json.dumps(float(number))
    return flat


def _array(numbers: list[float | str | None], shape: tuple[int, ...]) -> NDArray[np.float64]:
    plain = [INFINITE[x] if isinstance(x, str) else x for x in numbers]
    return np.array(plain, dtype=np.float64).reshape(shape)
