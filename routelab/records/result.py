"""What did an analysis find? Numbers with their axes, chance level, interval and count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    import pandas as pd

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Quantity:
    """One measured thing: an array with named axes, and what chance alone would give.

    `value`, `chance`, `low`, `high` and `p` are float64 arrays of one shape, an axis for each name
    in `dims`; NaN where the quantity is undefined, and `reason` then says why.
    """

    value: FloatArray
    dims: tuple[str, ...] = ()
    chance: FloatArray | None = None
    low: FloatArray | None = None
    high: FloatArray | None = None
    p: FloatArray | None = None
    unit: str = ""
    meaning: str = ""
    reason: str = ""

    def __post_init__(self) -> None:
        value = np.asarray(self.value, dtype=np.float64)
        object.__setattr__(self, "value", value)
        if value.ndim != len(self.dims):
            raise ValueError(
                f"a quantity of shape {value.shape} needs {value.ndim} dims, not {self.dims}"
            )
        for name in ("chance", "low", "high", "p"):
            given: ArrayLike | None = getattr(self, name)
            if given is not None:
                filled = np.broadcast_to(np.asarray(given, dtype=np.float64), value.shape).copy()
                object.__setattr__(self, name, filled)


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """The answer of one analysis, as it is saved in the store and read back.

    `coords` names the places along an axis (`{"layer": ["06", "07"]}`); an axis without an entry is
    numbered from 0. Layers with fewer experts are padded with NaN at the end of the expert axis.
    """

    name: str
    quantities: Mapping[str, Quantity]
    coords: Mapping[str, list[str]] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    n: int
    summary: str = ""
    warnings: tuple[str, ...] = ()

    def __getitem__(self, quantity: str) -> Quantity:
        """Return the quantity of this name."""
        return self.quantities[quantity]

    def axis(self, dim: str, length: int) -> list[str]:
        """Labels along one axis."""
        return list(self.coords.get(dim, [str(i) for i in range(length)]))

    def to_frame(self, quantity: str) -> pd.DataFrame:
        """One row for each cell of the quantity: its axes, value, chance, low, high and p."""
        import pandas as pd

        q = self.quantities[quantity]
        labels = [self.axis(dim, size) for dim, size in zip(q.dims, q.value.shape, strict=True)]
        if labels:
            frame = pd.MultiIndex.from_product(labels, names=q.dims).to_frame(index=False)
        else:
            frame = pd.DataFrame(index=[0])
        for name in ("value", "chance", "low", "high", "p"):
            array = getattr(q, name)
            if array is not None:
                frame[name] = array.ravel()
        frame["n"] = self.n
        return frame
