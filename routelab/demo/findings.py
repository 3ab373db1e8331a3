"""What did the demo find, in a table that a reader can trust?"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from routelab.demo.variants import Variant
from routelab.records import Quantity, Result
from routelab.store import CaptureStore

if TYPE_CHECKING:
    from rich.console import RenderableType

TERMS = ("class", "image", "token", "residual")


@dataclass(frozen=True)
class Finding:
    """One variant: accuracy, and the layer whose routing follows the class most.

    `contrast` is same-class minus different-class agreement of routing: 0 by chance, with its 95 %
    interval, and `p` over all layers at once. `budget` shares out the entropy of that layer's mean
    routing.
    """

    name: str
    says: str
    n: int
    accuracy: float
    layer: str
    contrast: float
    low: float
    high: float
    p: float
    dead: int
    experts: int
    budget: dict[str, float]


@dataclass(frozen=True)
class Findings:
    """What the demo prints at its end."""

    out: Path
    dense_accuracy: float
    n: int
    found: tuple[Finding, ...]

    def to_dict(self) -> dict[str, Any]:
        """All numbers, as --json prints them."""
        return {
            "out": str(self.out),
            "n": self.n,
            "dense_accuracy": self.dense_accuracy,
            "variants": [asdict(finding) for finding in self.found],
        }

    def text(self) -> tuple[RenderableType, ...]:
        """A table, how to read it, and what to do next."""
        from rich.markup import escape

        return ("", self._table(), "", *map(escape, self._lines()))

    def _lines(self) -> tuple[str, ...]:
        """How to read the table, and which commands go on from here."""
        name = self.found[0].name
        return (
            f"{self.n} test images, 10 classes: guessing is right for 10 %; the dense ViT is right "
            f"for {self.dense_accuracy:.1%}.",
            "Contrast: how much more alike two images of one class are routed than two of "
            "different classes; 0 by chance, 95 % interval, p over all layers at once.",
            "Class, image, token, residual: of the entropy of that layer's mean routing, how much "
            "is told by the class, by the image beyond it, by the token beyond that, and what "
            "stays undecided.",
            "",
            "Next:",
            f"  open {self.out / f'{name}.html'} in a browser",
            f"  routelab inspect {self.out / f'{name}.zarr'}",
            f"  routelab analyze {self.out / f'{name}.zarr'} --only consistency --json",
            f"  routelab verify {self.out / f'{name}.zarr'} --checkpoint "
            f"{self.out / f'{name}.safetensors'}",
            f"  routelab capture {self.out / f'{name}.safetensors'} --data FOLDER --out mine.zarr",
        )

    def _table(self) -> RenderableType:
        from rich.table import Table

        table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 1, 0))
        table.add_column("model", ratio=1)
        for title in ("right", "layer", "contrast there", "p", "dead", *TERMS):
            table.add_column(title, justify="right", no_wrap=True)
        for finding in self.found:
            table.add_row(*_cells(finding))
        return table


def finding_of(variant: Variant, store: CaptureStore) -> Finding:
    """Read the numbers from the store's saved Results."""
    consistency, load, information = (
        store.result(name) for name in ("consistency", "load", "information")
    )
    contrast = consistency["contrast"]
    best = int(np.argmax(np.nan_to_num(contrast.value, nan=-np.inf)))
    known = store.labels >= 0
    return Finding(
        name=variant.name,
        says=variant.says,
        n=int(known.sum()),
        accuracy=float((store.predictions == store.labels)[known].mean()),
        layer=store.layers[best].key,
        contrast=float(contrast.value[best]),
        low=_at(contrast.low, best),
        high=_at(contrast.high, best),
        p=float(consistency["p_max_statistic"].value[best]),
        dead=int(np.nansum(load["dead"].value)),
        experts=sum(spec.experts for spec in store.layers),
        budget=_budget(information, best),
    )


def _budget(information: Result, layer: int) -> dict[str, float]:
    """Share of each term of the layer's budget."""
    terms: Quantity = information["budget"]
    values = np.nan_to_num(terms.value[layer])
    total = values.sum() or 1.0
    return {name: float(value / total) for name, value in zip(TERMS, values, strict=True)}


def _at(array: NDArray[np.float64] | None, place: int) -> float:
    return float("nan") if array is None else float(array[place])


def _cells(finding: Finding) -> tuple[str, ...]:
    """One row of the table, two lines high."""
    return (
        finding.says,
        f"{finding.accuracy:.1%}",
        finding.layer,
        f"{finding.contrast:.3f}\n{finding.low:.3f} to {finding.high:.3f}",
        f"{finding.p:.3g}",
        f"{finding.dead}/{finding.experts}",
        *(f"{share:.0%}" for share in finding.budget.values()),
    )
