"""How are the numbers of many layers gathered into labelled quantities with their chance levels?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from routelab.analysis.axes import stack
from routelab.records import Quantity

FloatArray = NDArray[np.float64]
FIELDS = ("value", "chance", "low", "high", "p")


class Kind(NamedTuple):
    """What a quantity is: its axes, its unit and one line that says how to read it."""

    meaning: str
    dims: tuple[str, ...] = ("layer",)
    unit: str = ""


class Findings:
    """Collects one measurement a place (a layer, or a pair of layers) and stacks them.

    Parameters
    ----------
    places
        Labels of the first axis, in order.
    kinds
        Every name that may be noted; the order is the order of the quantities.
    """

    def __init__(self, places: Sequence[str], kinds: Mapping[str, Kind]) -> None:
        self._places = list(places)
        self._kinds = kinds
        self._noted: dict[str, dict[str, dict[str, ArrayLike]]] = {}
        self._reasons: dict[str, dict[str, list[str]]] = {}

    def note(
        self,
        place: str,
        name: str,
        value: ArrayLike,
        *,
        chance: ArrayLike | None = None,
        low: ArrayLike | None = None,
        high: ArrayLike | None = None,
        p: ArrayLike | None = None,
        reason: str = "",
    ) -> None:
        """Note one measurement and what stands beside it; `reason` says why a NaN is one."""
        if name not in self._kinds:
            raise KeyError(f"{name} is not declared among {', '.join(self._kinds)}")
        given = {"value": value, "chance": chance, "low": low, "high": high, "p": p}
        fields = {field: array for field, array in given.items() if array is not None}
        self._noted.setdefault(name, {})[place] = fields
        if reason:
            self._reasons.setdefault(name, {}).setdefault(reason, []).append(place)

    def value(self, name: str) -> FloatArray:
        """The stacked values of one name, places first; NaN where a place has none."""
        return self._stacked(name, "value")

    def quantities(self) -> dict[str, Quantity]:
        """A quantity for every name that was noted, in the order of the kinds."""
        return {name: self._quantity(name) for name in self._kinds if name in self._noted}

    def _quantity(self, name: str) -> Quantity:
        noted, kind = self._noted[name], self._kinds[name]
        present = [f for f in FIELDS if any(f in fields for fields in noted.values())]
        return Quantity(
            **{field: self._stacked(name, field) for field in present},
            dims=kind.dims,
            unit=kind.unit,
            meaning=kind.meaning,
            reason=self._reason(name),
        )

    def _stacked(self, name: str, field: str) -> FloatArray:
        noted = self._noted[name]
        empty = np.full(np.shape(next(iter(noted.values()))["value"]), np.nan)
        rows = []
        for place in self._places:
            fields = noted.get(place, {"value": empty})
            like = np.asarray(fields["value"], dtype=np.float64)
            rows.append(np.broadcast_to(np.asarray(fields.get(field, np.nan)), like.shape))
        return stack(rows)

    def _reason(self, name: str) -> str:
        reasons = self._reasons.get(name, {})
        everywhere = len(self._places)
        return "; ".join(
            reason if len(places) == everywhere else f"{', '.join(places)}: {reason}"
            for reason, places in reasons.items()
        )
