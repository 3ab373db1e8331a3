"""`routelab recycle`: how does a dense checkpoint become a MoE checkpoint?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from routelab.cli.answer import Answer, AsJson

if TYPE_CHECKING:
    from routelab.records import MoESpec
    from routelab.recycling import RecycleReport

EXAMPLE = (
    "routelab recycle vit_small.safetensors --model vit_small_patch16_224 --images photos \\\n"
    "    --layers 6-11 --core 98 --universal 196 --width 192 --router sphero --out moe.safetensors"
)


def run(
    dense: Annotated[
        Path, typer.Argument(help="A dense checkpoint: RouteLab's, or a state dict of timm.")
    ],
    out: Annotated[Path, typer.Option(help="The checkpoint to write (.safetensors).")],
    layers: Annotated[str, typer.Option(help="Blocks: 6-11, 6,8, 'last 6', 'every other' or all.")],
    model: Annotated[str, typer.Option(help="timm's name of DENSE, where no card says it.")] = "",
    source: Annotated[
        Path | None, typer.Option(help="A second dense checkpoint, for the experts.")
    ] = None,
    source_model: Annotated[str, typer.Option(help="timm's name of --source.")] = "",
    size: Annotated[
        int | None, typer.Option(min=8, help="Side of the input; positions are resampled.")
    ] = None,
    method: Annotated[
        str, typer.Option(help="random, uniform, importance, graph or copy (sparse upcycling).")
    ] = "importance",
    core: Annotated[int, typer.Option(min=1, help="Core experts a layer.")] = 8,
    universal: Annotated[int, typer.Option(min=0, help="Universal experts a layer.")] = 0,
    core_ratio: Annotated[float, typer.Option(help="Hidden neurons / width, core.")] = 4.0,
    universal_ratio: Annotated[
        float, typer.Option(help="Hidden neurons / width, universal.")
    ] = 1.0,
    shared: Annotated[bool, typer.Option("--shared", help="Add one shared expert.")] = False,
    router: Annotated[
        str, typer.Option(help="soft, sphero, topk, expert_choice or image; it starts fresh.")
    ] = "soft",
    slots: Annotated[int, typer.Option(min=1, help="Slots an expert; soft routing.")] = 1,
    k: Annotated[int, typer.Option(min=1, help="Choices a token; topk and image.")] = 1,
    renormalize: Annotated[
        bool, typer.Option(help="Gates of a token sum to 1; sparse routing.")
    ] = True,
    width: Annotated[
        int | None, typer.Option(min=1, help="Fewer channels (of a ConvNeXt's first stage).")
    ] = None,
    heads: Annotated[int | None, typer.Option(help="Attention heads, with --width.")] = None,
    channels: Annotated[
        str, typer.Option(help="uniform, random or importance; '' as the method has it.")
    ] = "",
    channel_mode: Annotated[
        str, typer.Option(help="shared: one index for the network; expert: one an expert.")
    ] = "shared",
    qkv: Annotated[
        str, typer.Option(help="heads: whole heads; released: channel index.")
    ] = "heads",
    score: Annotated[str, typer.Option(help="Importance: l1, l2 or firing.")] = "l2",
    draw: Annotated[str, typer.Option(help="Importance: sample or top.")] = "sample",
    partitioner: Annotated[str, typer.Option(help="Graph: metis, louvain or spectral.")] = "metis",
    parts: Annotated[int, typer.Option(help="Graph: parts a layer is cut into.")] = 32,
    weights: Annotated[str, typer.Option(help="Graph: lift or count.")] = "lift",
    noise: Annotated[float, typer.Option(help="On experts' weights, in their std.")] = 0.0,
    images: Annotated[
        str, typer.Option(help="Images to look at: a folder or a name; importance and graph.")
    ] = "",
    split: Annotated[str, typer.Option(help="Of images that have several.")] = "",
    limit: Annotated[
        int, typer.Option(min=1, help="Images to look at, equally of each class.")
    ] = 30_000,
    statistics: Annotated[
        Path | None, typer.Option(help="File of what was seen: read if it exists, else written.")
    ] = None,
    compare: Annotated[
        int, typer.Option(min=0, help="Images on which both models are compared.")
    ] = 64,
    batch_size: Annotated[int, typer.Option(min=1, help="Images a forward pass.")] = 32,
    seed: Annotated[int, typer.Option(min=0, help="Of everything.")] = 0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a checkpoint that exists.")
    ] = False,
    as_json: AsJson = False,
) -> Answer:
    """Make a MoE checkpoint of a dense one: experts are made of hidden neurons of its MLPs.

    With --images, the table in the end says how far the recycled model's features are from the
    dense model's, before any training.
    """
    from routelab.cli.consoles import Meter
    from routelab.models import mlp_blocks
    from routelab.records import Refusal
    from routelab.recycling import Look, RecycleOptions, open_source, recycle_to, resolve_layers

    out = out.with_suffix(".safetensors")
    if out.exists() and not overwrite:
        raise Refusal(f"{out} exists; replace it with --overwrite, or give another --out")
    options = RecycleOptions.model_validate(
        {
            "method": method,
            "score": score,
            "draw": draw,
            "partitioner": partitioner,
            "parts": parts,
            "weights": weights,
            "width": width,
            "heads": heads,
            "channels": channels or None,
            "channel_mode": channel_mode,
            "qkv": qkv,
            "noise": noise,
            "seed": seed,
        }
    )
    body = open_source(dense, architecture=model, size=size)
    second = None
    if source is not None:
        second = open_source(source, architecture=source_model, size=size)
    groups = [{"name": "core", "experts": core, "hidden_ratio": core_ratio, "slots": slots}]
    if universal:
        groups.append({"name": "universal", "experts": universal, "hidden_ratio": universal_ratio})
        groups[-1]["slots"] = slots
    blocks = resolve_layers(layers, len(mlp_blocks(body.model)))
    spec = _spec(blocks, router, groups, k, renormalize=renormalize, shared=shared)
    look = Look(
        data=images,
        split=split,
        limit=limit,
        statistics=statistics,
        compare=compare,
        batch_size=batch_size,
    )
    with Meter("look") as meter:
        report = recycle_to(
            out, body, spec, options, experts=second, look=look, progress=meter.update
        )
    return Answer(_facts(report), _text(report))


def _spec(
    blocks: tuple[int, ...],
    router: str,
    groups: list[dict[str, Any]],
    k: int,
    *,
    renormalize: bool,
    shared: bool,
) -> MoESpec:
    """The MoESpec that the flags describe."""
    from routelab.records import MoESpec

    configured: dict[str, Any] = {"kind": router}
    if router in ("topk", "image"):
        configured |= {"k": k}
    if router in ("topk", "image", "expert_choice"):
        configured |= {"renormalize": renormalize}
    return MoESpec.model_validate(
        {
            "layers": blocks,
            "router": configured,
            "groups": groups,
            "shared": {"name": "shared", "experts": 1} if shared else None,
        }
    )


def _facts(report: RecycleReport) -> dict[str, Any]:
    """What a program reads."""
    cost = None
    if report.cost is not None:
        cost = report.cost.model_dump() | {"forward_share": report.cost.forward_share}
    return {
        "checkpoint": str(report.path),
        "card": report.card.model_dump(mode="json"),
        "lineage": [row._asdict() for row in report.lineage],
        "preservation": [row._asdict() for row in report.preservation],
        "cost": cost,
        "statistics_reused": report.reused,
        "seconds": report.seconds,
        "peak_memory": report.peak_memory,
        "notes": list(report.notes),
    }


def _text(report: RecycleReport) -> tuple[Any, ...]:
    """What a reader reads."""
    from rich.markup import escape

    from routelab.cli.tables import lineage_table, preservation_table

    parts: list[Any] = [f"[bold]{escape(str(report.path))}[/]: {escape(report.card.source)}"]
    if report.cost is not None:
        cost = report.cost
        parts.append(
            f"looked at {cost.images} images{' earlier' if report.reused else ''}: "
            f"forward {cost.forward:.1f} s, bookkeeping {cost.bookkeeping:.1f} s "
            f"({cost.forward_share:.0%} forward), peak memory {cost.peak_memory:.2f} GiB"
        )
    parts.append(
        f"chosen and gathered in {report.seconds:.1f} s, "
        f"peak memory of all {report.peak_memory:.2f} GiB"
    )
    parts += [f"[yellow]note:[/] {escape(note)}" for note in report.notes]
    parts += ["", lineage_table(report.lineage)]
    if report.preservation:
        parts += ["", preservation_table(report.preservation)]
    return (*parts, "", escape(f"Next: routelab inspect {report.path}"))
