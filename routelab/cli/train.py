"""`routelab train`: how does a dense model learn, or become a MoE model?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from routelab.cli.answer import Answer, AsJson

if TYPE_CHECKING:
    from torch import nn

    from routelab.records import ModelCard, MoESpec

EXAMPLE = (
    "routelab train demo/dense.safetensors --data digits --router topk --k 2 \\\n"
    "    --layers 2-4 --experts 4 --epochs 4 --out topk.safetensors"
)


def run(
    data: Annotated[str, typer.Option(help="Labelled images: a folder of CLASS/image or a name.")],
    out: Annotated[Path, typer.Option(help="The checkpoint to write (.safetensors).")],
    start: Annotated[
        Path | None, typer.Argument(help="A checkpoint to start from; without it, from scratch.")
    ] = None,
    architecture: Annotated[str, typer.Option(help="Of timm, from scratch.")] = "",
    size: Annotated[int, typer.Option(min=8, help="Side of the input, from scratch.")] = 224,
    router: Annotated[
        str,
        typer.Option(
            help="Make a MoE model by copying: soft, sphero, topk, expert_choice or image."
        ),
    ] = "",
    layers: Annotated[str, typer.Option(help="Blocks that get a MoE layer: 6-11 or 6,8.")] = "",
    experts: Annotated[int, typer.Option(help="Experts a layer.")] = 8,
    slots: Annotated[int, typer.Option(help="Slots an expert; soft routing.")] = 1,
    k: Annotated[int, typer.Option(help="Choices a token; topk and image.")] = 1,
    shared: Annotated[bool, typer.Option("--shared", help="Add one shared expert.")] = False,
    split: Annotated[
        str, typer.Option(help="Training part of data that has several; '' for plain folders.")
    ] = "train",
    validation: Annotated[str, typer.Option(help="Its validation part; '' for none.")] = "",
    epochs: Annotated[int, typer.Option(help="Passes over the images.")] = 10,
    batch_size: Annotated[int, typer.Option(help="Images an update.")] = 64,
    learning_rate: Annotated[float, typer.Option(help="At the top of the schedule.")] = 1e-3,
    weight_decay: Annotated[float, typer.Option(help="Of matrices.")] = 0.05,
    trains: Annotated[str, typer.Option(help="all, suffix or moe.")] = "all",
    cache_prefix: Annotated[
        bool, typer.Option("--cache-prefix", help="Keep what lies below the first MoE block.")
    ] = False,
    balance: Annotated[float, typer.Option(help="Weight of the balance loss.")] = 0.0,
    device: Annotated[str, typer.Option(help="cpu, cuda or mps.")] = "cpu",
    seed: Annotated[int, typer.Option(help="Of everything.")] = 0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a checkpoint that exists.")
    ] = False,
    as_json: AsJson = False,
) -> Answer:
    """Train a dense model, or a MoE model made from one by copying; minimal, one recipe.

    The checkpoint is written at the end in one step, beside it a log with each part of the loss.
    """
    from routelab.cli.consoles import Meter
    from routelab.data import in_memory, open_data
    from routelab.records import Refusal
    from routelab.training import Recipe, train_to

    if out.exists() and not overwrite:
        raise Refusal(f"{out} exists; replace it with --overwrite, or give another --out")
    recipe = Recipe.model_validate(
        {
            "epochs": epochs,
            "batch_size": batch_size,
            "learning_rate": learning_rate,
            "weight_decay": weight_decay,
            "trains": trains,
            "cache_prefix": cache_prefix,
            "auxiliary": {"balance": balance} if balance else {},
            "seed": seed,
        }
    )
    spec = _spec(router, layers, experts, slots, k, shared=shared) if router else None
    model, card = _start(start, architecture, size, data, split, spec, seed)
    images = in_memory(open_data(data, card.transform, split=split))
    held_out = open_data(data, card.transform, split=validation) if validation else None
    with Meter("train") as meter:
        card, history = train_to(
            out.with_suffix(".safetensors"),
            model,
            card,
            images,
            recipe,
            validation=in_memory(held_out) if held_out is not None else None,
            device=device,
            progress=meter.update,
        )
    last = history.last
    measured = "" if last.validation is None else f", {last.validation:.1%} of {validation} images"
    return Answer(
        facts={"checkpoint": str(out), **history.model_dump(mode="json")},
        text=(
            f"{out}: {last.accuracy:.1%} of the training images right{measured}",
            f"Next: routelab inspect {out}",
        ),
    )


def _start(
    start: Path | None,
    architecture: str,
    size: int,
    data: str,
    split: str,
    spec: MoESpec | None,
    seed: int,
) -> tuple[nn.Module, ModelCard]:
    """The model that training begins with."""
    from routelab.data import open_data
    from routelab.models import load_checkpoint
    from routelab.records import Refusal, Transform
    from routelab.training import start_dense, start_moe

    if start is not None:
        model, card = load_checkpoint(start)
    elif architecture:
        transform = Transform(size=size)
        classes = open_data(data, transform, split=split).classes
        model, card = start_dense(architecture, classes, transform, seed=seed)
    else:
        raise Refusal("nothing to start from; give a checkpoint, or --architecture of timm")
    return (model, card) if spec is None else start_moe(model, card, spec, seed=seed)


def _spec(router: str, layers: str, experts: int, slots: int, k: int, *, shared: bool) -> MoESpec:
    """The MoESpec that the flags describe."""
    from routelab.records import MoESpec

    configured: dict[str, Any] = {"kind": router}
    if router in ("topk", "image"):
        configured |= {"k": k, "renormalize": k > 1}
    return MoESpec.model_validate(
        {
            "layers": _blocks(layers),
            "router": configured,
            "groups": [{"experts": experts, "slots": slots}],
            "shared": {"name": "shared", "experts": 1} if shared else None,
        }
    )


def _blocks(layers: str) -> list[int]:
    """Block numbers in "6-11" or "6,8"."""
    from routelab.records import Refusal

    numbers: list[int] = []
    for part in filter(None, (p.strip() for p in layers.split(","))):
        first, _, last = part.partition("-")
        if not (first.isdigit() and (last or first).isdigit()):
            raise Refusal(f'--layers "{layers}" is not a list of blocks; write 6-11 or 6,8')
        numbers += range(int(first), int(last or first) + 1)
    if not numbers:
        raise Refusal("--router needs --layers, the blocks that get a MoE layer, for example 6-11")
    return numbers
