"""`routelab report`: one file that a researcher could send to a colleague."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from routelab.cli.answer import Answer, AsJson

EXAMPLE = "routelab report demo/soft.zarr --out soft.html"


def run(
    store: Annotated[Path, typer.Argument(help="The store.")],
    out: Annotated[
        Path | None, typer.Option(help="The HTML file; beside the store by default.")
    ] = None,
    as_json: AsJson = False,
) -> Answer:
    """Bind what a store says into one self-contained HTML file, with nothing computed anew."""
    from rich.markup import escape

    from routelab.report import write_report

    written = write_report(store, out if out is not None else store.with_suffix(".html"))
    size = written.stat().st_size
    return Answer(
        facts={"report": str(written), "bytes": size},
        text=(f"{escape(str(written))} ({size / 1e6:.1f} MB); open it in a browser",),
    )
