"""`routelab demo`: what does all of this look like, on real images, in three minutes?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from routelab.cli.answer import Answer, AsJson

EXAMPLE = "routelab demo --out demo"


def run(
    out: Annotated[Path, typer.Option(help="The folder for everything that is made.")] = Path(
        "routelab-demo"
    ),
    quick: Annotated[
        bool, typer.Option("--quick", help="Hardly any training, to see that all works.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Begin anew; finished steps are kept otherwise.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of all training and analysis.")] = 0,
    as_json: AsJson = False,
) -> Answer:
    """Train a small ViT on digits, make four MoE models of it, and compare how they route.

    Under three minutes on two cores, without a download. A second run with the same folder keeps
    every step that is finished.
    """
    from routelab.cli.consoles import err

    console = err()
    console.print(
        f"A dense ViT learns the digits, and becomes four MoE models that differ in their router; "
        f"their routing is captured and analysed, and each gets a report in [bold]{out}[/]. "
        f"{'Under a minute' if quick else 'About two and a half minutes'} on two cores."
    )
    from routelab.demo import run_demo

    with console.status("reading the digits") as status:
        findings = run_demo(
            out,
            quick=quick,
            overwrite=overwrite,
            seed=seed,
            told=lambda line: console.print(line, markup=False),
            doing=status.update,
        )
    return Answer(findings.to_dict(), findings.text())
