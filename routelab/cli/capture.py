"""`routelab capture`: which expert saw which token, over all of these images?"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from routelab.cli.answer import Answer, AsJson

if TYPE_CHECKING:
    from routelab.capture import CaptureReport, Plan
    from routelab.cli.consoles import Meter

EXAMPLE = "routelab capture demo/soft.safetensors --data digits --out soft.zarr --verify"


def run(
    checkpoint: Annotated[Path, typer.Argument(help="A MoE checkpoint that RouteLab wrote.")],
    data: Annotated[
        str,
        typer.Option(
            help="A folder of images (CLASS/image or flat), 'digits', "
            "'torchvision:NAME?root=FOLDER' or 'timm:NAME?root=FOLDER'."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The store to write, for example run.zarr.")],
    split: Annotated[str, typer.Option(help="Of data that has several, e.g. test.")] = "",
    layers: Annotated[str, typer.Option(help="Blocks: 6-11, 6,8 or all.")] = "all",
    level: Annotated[str, typer.Option(help="totals, profiles or full.")] = "full",
    full: Annotated[
        str, typer.Option(help="Images with full routing, from the first on; a number or all.")
    ] = "2000",
    features: Annotated[str, typer.Option(help="none, pooled or tokens.")] = "pooled",
    batch_size: Annotated[int, typer.Option(help="Images a forward pass.")] = 32,
    shard: Annotated[
        int | None, typer.Option(help="Images a file of full routing; a multiple of the batch.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, mps, cuda or cuda:N.")] = "auto",
    dtype: Annotated[
        str, typer.Option(help="Of autocast: float32 (none), bfloat16 or float16.")
    ] = "float32",
    limit: Annotated[int | None, typer.Option(help="Only the first images.")] = None,
    skip_corrupt: Annotated[
        bool, typer.Option("--skip-corrupt", help="Leave unreadable images out, and name them.")
    ] = False,
    budget: Annotated[
        str | None, typer.Option(help="Largest size on disk, for example 20GB.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where this capture was broken off.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a store that exists.")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Replay several batches, not only the first.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan and stop; nothing is written.")
    ] = False,
    as_json: AsJson = False,
) -> Answer:
    """Record the routing of a MoE checkpoint over images into a store.

    The plan (layers, size, files, time) is printed before anything is written. Ctrl-C finishes the
    batch and prints the command that resumes; so does a second run with --resume after a crash.
    """
    from routelab.capture import CaptureOptions, capture
    from routelab.cli.consoles import Meter

    options = CaptureOptions.model_validate(
        {
            "checkpoint": checkpoint,
            "data": data,
            "out": out,
            "split": split,
            "layers": layers,
            "level": level,
            "full": int(full) if full.isdigit() else full,
            "features": features,
            "batch_size": batch_size,
            "shard": shard,
            "device": device,
            "dtype": dtype,
            "limit": limit,
            "skip_corrupt": skip_corrupt,
            "budget": budget,
            "resume": resume,
            "overwrite": overwrite,
            "verify": verify,
            "dry_run": dry_run,
        }
    )
    with Meter("capture") as meter:
        report = capture(options, _reporter(meter))
    return Answer(report.to_dict(), _text(report), report.exit_code)


def _reporter(meter: Meter) -> Any:
    """Draws the plan and the progress on stderr."""
    from routelab.capture import Reporter

    class Drawn(Reporter):
        def planned(self, plan: Plan) -> None:
            for part in plan_text(plan):
                meter.console.print(part)

        def advanced(self, images: int, total: int, committed: int) -> None:
            meter.update(images, total)

        def noted(self, sentence: str) -> None:
            meter.note(sentence)

    return Drawn()


def plan_text(plan: Plan) -> tuple[Any, ...]:
    """Layers, size, files and time, before anything is written."""
    from routelab.capture import readable
    from routelab.cli.tables import facts_table, layers_table

    time = f"about {max(plan.seconds, 1):.0f} s" if math.isfinite(plan.seconds) else ""
    facts = {
        "images": f"{plan.images}, {plan.card.full} of them in full",
        "level": f"{plan.card.level}, features {plan.card.features}",
        "device": f"{plan.card.device}, {plan.card.dtype}",
        "store": f"{readable(plan.bytes)} in {plan.files} files, {len(plan.arrays)} arrays",
        "time": time,
        "left out": "; ".join(plan.left_out),
        "refused": "; ".join(f"layer {key}: {why}" for key, why in plan.refused.items()),
    }
    return layers_table(plan.layers), facts_table(facts), ""


def _text(report: CaptureReport) -> tuple[Any, ...]:
    """How the capture ended, and what to do next."""
    from rich.markup import escape

    from routelab.cli.tables import checks_table

    warnings = [f"[yellow]note[/] {escape(warning)}" for warning in report.warnings]
    if report.status == "planned":
        return ("nothing was written (--dry-run)", *warnings)
    if report.status == "interrupted":
        said = f"interrupted; {report.committed} images are safe in {report.store}; go on with:"
        return (escape(said), escape(report.resume), *warnings)
    speed = report.timing.get("images_per_second")
    rate = "" if speed is None else f", {speed:.0f} images/s"
    return (
        f"[bold]{escape(str(report.store))}[/]: {report.committed} images{rate}",
        checks_table(report.certificate.checks),
        *warnings,
        "",
        escape(f"Next: routelab analyze {report.store}"),
    )
