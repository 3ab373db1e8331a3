"""`routelab study`: which way of making a MoE model helps, under one budget?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from routelab.cli.answer import Answer, AsJson

if TYPE_CHECKING:
    from routelab.records import Comparison

EXAMPLE = (
    "routelab study analyses/recycling_cifar10.toml --out runs/study\n"
    "  routelab study analyses/recycling_cifar10.toml --out runs/study --resume"
)


def run(
    study: Annotated[Path, typer.Argument(metavar="STUDY.toml", help="Source, budget, arms.")],
    out: Annotated[Path, typer.Option(help="The folder of the study's runs.")],
    resume: Annotated[bool, typer.Option("--resume", help="Run what is left.")] = False,
    as_json: AsJson = False,
) -> Answer:
    """Run arms × seeds under one budget, one after the other, and compare them.

    Each run is a run directory of `routelab train`; it can be stopped at any moment. The folder
    ends with `comparison.json`, `comparison.md` (tables) and `comparison.html` (with curves of
    accuracy against updates, FLOPs and time).
    """
    from routelab.cli.consoles import Meter
    from routelab.report import comparison_page, comparison_tables
    from routelab.study import read_study, run_study
    from routelab.training.safely import write_text

    asked = read_study(study)
    with Meter(asked.name) as meter:
        made = run_study(
            asked,
            out,
            resume=resume,
            told=meter.note,
            began=meter.restart,
            progress=meter.update,
        )
    tables = comparison_tables(made)
    write_text(out / "comparison.md", tables)
    write_text(out / "comparison.html", comparison_page(made))
    return Answer(facts=_facts(made), text=(tables, f"Next: open {out / 'comparison.html'}"))


def _facts(made: Comparison) -> dict[str, Any]:
    """What a program reads: the comparison, and its rows."""
    from routelab.report import comparison_rows

    rows = [row._asdict() for row in comparison_rows(made)]
    return {**made.model_dump(mode="json"), "rows": rows}
