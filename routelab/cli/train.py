"""`routelab train`: how does a dense model learn, or become a MoE model?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from routelab.cli.answer import Answer, AsJson

if TYPE_CHECKING:
    from routelab.training import History, RunConfig

EXAMPLE = (
    "routelab train demo/dense.safetensors --data digits --validation test --recipe digits \\\n"
    "    --router topk --k 2 --layers 2-4 --set epochs=4 --out runs/topk\n"
    "  routelab train --resume --out runs/topk"
)


def print_keys(wanted: bool) -> None:
    """Print every key of the configuration and every recipe, and leave."""
    if not wanted:
        return
    from rich.markup import escape
    from rich.table import Table

    from routelab.cli.consoles import out
    from routelab.training import RECIPES, described_keys

    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("key", "default", "meaning"):
        table.add_column(column, overflow="fold")
    for key in described_keys():
        shown = "none" if key.default is None else str(key.default)
        table.add_row(key.name, escape(shown), escape(key.says))
    for name, recipe in RECIPES.items():
        table.add_row(f"--recipe {name}", "", escape(f"{recipe.says}. Source: {recipe.source}"))
    out().print(table)
    raise typer.Exit()


def run(
    out: Annotated[
        Path, typer.Option(help="The run directory to write, or one checkpoint (.safetensors).")
    ],
    start: Annotated[
        Path | None,
        typer.Argument(
            metavar="[CONFIG.toml|CHECKPOINT]",
            help="A configuration, or a checkpoint to start from; without either, from scratch.",
        ),
    ] = None,
    recipe: Annotated[
        str,
        typer.Option(help="jetpack-imagenet, jetpack-small, vimoe-finetune or digits."),
    ] = "",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any key of the configuration; repeat it."),
    ] = None,
    keys: Annotated[
        bool,
        typer.Option(
            "--keys",
            is_eager=True,
            callback=print_keys,
            help="Print every key that --set takes and every recipe, and leave.",
        ),
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run, with exactly the same outcome.")
    ] = False,
    data: Annotated[
        str | None, typer.Option(help="Labelled images: a folder of CLASS/image or a name.")
    ] = None,
    architecture: Annotated[str | None, typer.Option(help="Of timm, from scratch.")] = None,
    size: Annotated[
        int | None, typer.Option(min=8, help="Side of the input, from scratch.")
    ] = None,
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
        str | None,
        typer.Option(help="Training part of data that has several; '' for plain folders."),
    ] = None,
    validation: Annotated[str | None, typer.Option(help="Its validation part.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the images.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Images a batch.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="At the top of the schedule.")] = None,
    weight_decay: Annotated[float | None, typer.Option(help="Of matrices.")] = None,
    trains: Annotated[
        str | None, typer.Option(help="all, suffix, moe, router, head, lora or prompts.")
    ] = None,
    cache_prefix: Annotated[
        bool, typer.Option("--cache-prefix", help="Keep what lies below the first MoE block.")
    ] = False,
    balance: Annotated[float | None, typer.Option(help="Weight of the balance loss.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda or mps.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of everything.")] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a run or checkpoint that exists.")
    ] = False,
    as_json: AsJson = False,
) -> Answer:
    """Train a dense model, or a MoE model made from one by copying.

    A run directory holds configuration, log, checkpoints (last, best) and what a killed run goes on
    from. Start several processes with `torchrun -m routelab train …`. With --out NAME.safetensors
    only the checkpoint and its log are written, at the end.
    """
    import os
    import sys

    from routelab.records import Refusal
    from routelab.training import read_config
    from routelab.training.folder import RunFolder

    if os.environ.get("RANK", "0") != "0":
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115  one of several answers
    values = _given(
        {
            "start": {"architecture": architecture, "transform": {"size": size}},
            "data": {"source": data, "split": split, "validation": validation},
            "recipe": {
                "epochs": epochs,
                "batch_size": batch_size,
                "learning_rate": learning_rate,
                "weight_decay": weight_decay,
                "trains": trains,
                "cache_prefix": cache_prefix or None,
                "auxiliary": {"balance": balance or None},
                "seed": seed,
            },
            "device": device,
        }
    )
    path = start if start is not None and start.suffix in (".toml", ".json") else None
    if start is not None and path is None:
        values.setdefault("start", {})["checkpoint"] = str(start)
    if router:
        values["moe"] = _spec(router, layers, experts, slots, k, shared=shared)
    if out.suffix == ".safetensors":
        if resume:
            raise Refusal("--resume needs a run directory; give --out a folder")
        if out.exists() and not overwrite:
            raise Refusal(f"{out} exists; replace it with --overwrite, or give another --out")
    if resume and path is None:
        path = RunFolder(out).stored()
    config = read_config(path, recipe=recipe, values=values, settings=settings or ())
    history = _train(config, out, resume=resume, overwrite=overwrite)
    return _answer(history, config, out)


def _train(config: RunConfig, out: Path, *, resume: bool, overwrite: bool) -> History:
    """Train into a run directory, or to one checkpoint."""
    import os

    from routelab.cli.consoles import Meter
    from routelab.training import train_once, train_run

    with Meter("train") as meter:
        if out.suffix == ".safetensors":
            return train_once(config, out, progress=meter.update)
        return train_run(
            config,
            out,
            resume=resume,
            overwrite=overwrite,
            progress=meter.update if os.environ.get("RANK", "0") == "0" else None,
            told=meter.note,
        )


def _answer(history: History, config: RunConfig, out: Path) -> Answer:
    last = history.last
    measured = (
        ""
        if last.validation is None
        else f", {last.validation:.1%} of {config.data.validation} images"
    )
    checkpoint = out if out.suffix == ".safetensors" else out / "last.safetensors"
    return Answer(
        facts={"checkpoint": str(checkpoint), **history.model_dump(mode="json")},
        text=(
            f"{out}: {last.accuracy:.1%} of the training images right{measured}",
            f"Next: routelab eval {checkpoint} --data {config.data.source}",
        ),
    )


def _given(values: dict[str, Any]) -> dict[str, Any]:
    """The flags that were given, sections without any left out."""
    nested = {k: _given(v) if isinstance(v, dict) else v for k, v in values.items()}
    return {key: value for key, value in nested.items() if value not in (None, {})}


def _spec(
    router: str, layers: str, experts: int, slots: int, k: int, *, shared: bool
) -> dict[str, Any]:
    """The section moe that the flags describe."""
    configured: dict[str, Any] = {"kind": router}
    if router in ("topk", "image"):
        configured |= {"k": k, "renormalize": k > 1}
    return {
        "layers": _blocks(layers),
        "router": configured,
        "groups": [{"experts": experts, "slots": slots}],
        "shared": {"name": "shared", "experts": 1} if shared else None,
    }


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
