"""`routelab eval`: how good is a checkpoint, for which classes, and at what cost?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from routelab.cli.answer import Answer, AsJson

if TYPE_CHECKING:
    from rich.table import Table

    from routelab.training.scores import Scores, Share

EXAMPLE = "routelab eval runs/topk/best.safetensors --data digits --split test"
SHOWN = 20
"""Classes in the table of a terminal, the least accurate first; --json has all."""


def run(
    checkpoint: Annotated[Path, typer.Argument(help="A .safetensors file with its card.")],
    data: Annotated[str, typer.Option(help="Labelled images: a folder of CLASS/image or a name.")],
    split: Annotated[str, typer.Option(help="Of data that has several.")] = "",
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first images.")] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Images a forward pass.")] = 64,
    device: Annotated[str, typer.Option(help="cpu, cuda or mps.")] = "cpu",
    as_json: AsJson = False,
) -> Answer:
    """Top-1 and top-5 accuracy, classes with Wilson intervals, calibration, speed and size."""
    from routelab.cli.consoles import Meter
    from routelab.data import open_data
    from routelab.models import load_checkpoint
    from routelab.training import score
    from routelab.training.scores import check_classes

    model, card = load_checkpoint(checkpoint)
    images = open_data(data, card.transform, split=split, limit=limit)
    check_classes(card, images)
    with Meter("eval") as meter:
        scores = score(
            model, card, images, batch_size=batch_size, device=device, progress=meter.update
        )
    facts = {"checkpoint": str(checkpoint), "data": data, **scores.model_dump(mode="json")}
    return Answer(facts=facts, text=(_summary(scores), _classes(scores)))


def _summary(scores: Scores) -> Table:
    from routelab.cli.tables import facts_table, readable

    active = scores.active_parameters
    return facts_table(
        {
            "images": scores.images,
            "top-1": _words(scores.top1),
            "top-5": "" if scores.top5 is None else _words(scores.top5),
            "calibration error": f"{scores.calibration_error:.3f} (mean confidence "
            f"{scores.mean_confidence:.3f})",
            "speed": f"{scores.images_per_second:.0f} images/s, {scores.batch_size} at a time, "
            f"{scores.device}",
            "parameters": f"{readable(scores.parameters)}, {readable(active)} used by a token",
            "FLOPs an image": readable(scores.flops),
        }
    )


def _classes(scores: Scores) -> Table:
    """The least accurate classes, with 95 % intervals."""
    from rich.markup import escape
    from rich.table import Table

    ordered = sorted(
        scores.per_class.items(), key=lambda item: 2.0 if item[1].value is None else item[1].value
    )
    more = len(ordered) - SHOWN
    title = f"the {SHOWN} least accurate of {len(ordered)} classes" if more > 0 else None
    table = Table(box=None, header_style="bold", pad_edge=False, title=title)
    for column in ("class", "images", "right", "95 % interval"):
        table.add_column(column)
    for name, share in ordered[:SHOWN]:
        table.add_row(escape(name), str(share.images), *_cells(share))
    return table


def _words(share: Share) -> str:
    value, interval = _cells(share)
    return f"{value} [{interval}]"


def _cells(share: Share) -> tuple[str, str]:
    if share.value is None or share.low is None or share.high is None:
        return "none", ""
    return f"{share.value:.1%}", f"{share.low:.1%}, {share.high:.1%}"
