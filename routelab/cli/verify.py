"""`routelab verify`: is a store what it says it is?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from routelab.cli.answer import Answer, AsJson

EXAMPLE = "routelab verify demo/soft.zarr --checkpoint demo/soft.safetensors"

FAILED = 5


def run(
    store: Annotated[Path, typer.Argument(help="The store.")],
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Also replay the recorded routing through this model, on its images."),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Where the images are now, if they have moved.")
    ] = None,
    device: Annotated[str, typer.Option(help="Where the model runs.")] = "cpu",
    as_json: AsJson = False,
) -> Answer:
    """Check a store: every image once, every file whole, weights sum to 1, sums agree with rows.

    With --checkpoint the routing is also replayed through the experts. Exit code 5: a check
    failed.
    """
    from routelab.cli.tables import checks_table
    from routelab.records import Certificate
    from routelab.store import verify_store

    checks = verify_store(store)
    if checkpoint is not None:
        from routelab.capture import replay_store

        checks += replay_store(store, checkpoint, data=data, device=device)
    certificate = Certificate(checks=checks)
    failed = sum(not check.passed for check in checks)
    says = f"{len(checks)} checks passed" if certificate.passed else f"{failed} checks FAILED"
    return Answer(
        facts={
            "store": str(store),
            "passed": certificate.passed,
            "checks": certificate.model_dump(mode="json")["checks"],
        },
        text=(checks_table(checks), "", f"[bold]{says}[/]"),
        code=0 if certificate.passed else FAILED,
    )
