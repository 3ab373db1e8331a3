"""`routelab analyze`: what does a store say about each question?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from routelab.cli.answer import Answer, AsJson

if TYPE_CHECKING:
    from routelab.analysis import Outcome
    from routelab.records import Quantity, Result

EXAMPLE = "routelab analyze demo/soft.zarr --only consistency --only load"

MOST_NUMBERS = 2000
"""Larger arrays are left out of the JSON; the store has them."""


def run(
    store: Annotated[Path, typer.Argument(help="The store.")],
    only: Annotated[
        list[str] | None, typer.Option(help="An analysis by name; may be given several times.")
    ] = None,
    permutations: Annotated[
        int, typer.Option(min=19, help="Shuffles behind every chance level.")
    ] = 999,
    seed: Annotated[int, typer.Option(min=0, help="Of shuffles and intervals.")] = 0,
    force: Annotated[
        bool, typer.Option("--force", help="Compute again what the store already holds.")
    ] = False,
    as_json: AsJson = False,
) -> Answer:
    """Ask a store questions; each answer is saved in it with its chance level and interval.

    An answer that the store holds for the same parameters is read back, not computed again.
    """
    from routelab.analysis import analyze
    from routelab.cli.consoles import err
    from routelab.store import open_store

    console = err()
    outcomes = analyze(
        open_store(store),
        only or None,
        seed=seed,
        permutations=permutations,
        force=force,
        progress=lambda name: console.print(f"[dim]{name} …[/]"),
    )
    return Answer(
        facts={
            "store": str(store),
            "results": {o.name: _result(o.result) for o in outcomes if o.result is not None},
            "not_answered": {o.name: o.reason for o in outcomes if o.result is None},
        },
        text=_text(outcomes, store),
    )


def _text(outcomes: list[Outcome], store: Path) -> tuple[Any, ...]:
    """One paragraph an answer, its warnings under it."""
    from rich.markup import escape

    lines: list[str] = []
    for outcome in outcomes:
        if outcome.result is None:
            lines.append(f"[bold]{outcome.name}[/]: not answered: {escape(outcome.reason)}")
            continue
        read = " [dim](read back)[/]" if outcome.reused else ""
        lines.append(f"[bold]{outcome.name}[/]{read}: {escape(outcome.result.summary)}")
        lines += [f"  [yellow]note[/] {escape(warning)}" for warning in outcome.result.warnings]
    return (*lines, "", escape(f"Next: routelab report {store}"))


def _result(result: Result) -> dict[str, Any]:
    """A Result as JSON has it."""
    return {
        "summary": result.summary,
        "n": result.n,
        "warnings": list(result.warnings),
        "parameters": dict(result.parameters),
        "coords": {dim: list(names) for dim, names in result.coords.items() if len(names) <= 200},
        "quantities": {name: _quantity(q) for name, q in result.quantities.items()},
    }


def _quantity(quantity: Quantity) -> dict[str, Any]:
    """A quantity: its arrays, or only its shape where it is large."""
    facts: dict[str, Any] = {
        "dims": list(quantity.dims),
        "shape": list(quantity.value.shape),
        "unit": quantity.unit,
        "meaning": quantity.meaning,
        "reason": quantity.reason,
    }
    if quantity.value.size <= MOST_NUMBERS:
        for name in ("value", "chance", "low", "high", "p"):
            array = getattr(quantity, name)
            if array is not None:
                facts[name] = array.tolist()
    return facts
