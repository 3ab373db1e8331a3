"""`routelab inspect`: what is in this checkpoint, or in this store?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from routelab.cli.answer import Answer, AsJson

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from routelab.models import Counts
    from routelab.records import Lineage

EXAMPLE = "routelab inspect demo/soft.zarr"


def run(
    path: Annotated[Path, typer.Argument(help="A checkpoint (.safetensors) or a store (.zarr).")],
    as_json: AsJson = False,
) -> Answer:
    """Show the card of a checkpoint or a store: layers, counts, and what it proves about itself."""
    if path.is_dir() or path.suffix == ".zarr":
        return _store(path)
    return _checkpoint(path)


def _store(path: Path) -> Answer:
    """The card of a store; torch is not needed."""
    from routelab.cli.tables import checks_table, facts_table, layers_table
    from routelab.store import open_store

    store = open_store(path)
    card, capture, data = store.card, store.card.capture, store.card.data
    state = "complete" if card.complete else "not complete; go on with capture --resume"
    facts = {
        "store": str(path),
        "state": f"{state}, {store.committed} of {data.images} images",
        "level": f"{capture.level}, {store.full} images in full, features {capture.features}",
        "model": card.model.architecture,
        "weights": card.model.sha256[:16],
        "lineage": _origin(card.model.lineage, store.lineage()),
        "data": f"{data.source} {data.split}".strip(),
        "classes": len(store.classes) or "",
        "layers left out": "; ".join(f"layer {k}: {why}" for k, why in card.refused.items()),
        "unreadable": len(data.skipped) or "",
        "device": f"{capture.device}, {capture.dtype}, batches of {capture.batch_size}",
        "results": ", ".join(store.results()) or "none; make them with routelab analyze",
    }
    verdict = "passed" if card.certificate.passed else "not passed"
    return Answer(
        facts={
            **card.model_dump(mode="json"),
            "kind": "store",
            "path": str(path),
            "passed": card.certificate.passed,
            "results": list(store.results()),
            "timing": store.timing,
        },
        text=(
            facts_table(facts),
            "",
            layers_table(store.layers),
            "",
            f"[bold]certificate: {verdict}[/]",
            checks_table(card.certificate.checks),
        ),
    )


def _origin(lineage: Lineage | None, indices: Mapping[str, NDArray[np.int32]]) -> str:
    """Method, source, and how many experts' neurons are in the store; "" where not recycled."""
    if lineage is None:
        return ""
    experts = sum(len(held) for name, held in indices.items() if "_neurons_" in name)
    source = lineage.experts
    return (
        f"{lineage.method} from {source.architecture} {source.sha256[:12]}; neurons of "
        f"{experts} experts in lineage/"
    )


def _checkpoint(path: Path) -> Answer:
    """The card of a checkpoint, with parameters and FLOPs by part."""
    from routelab.cli.tables import facts_table, layers_table, lineage_table, readable
    from routelab.models import count, load_checkpoint, router_specs
    from routelab.recycling import lineage_rows

    model, card = load_checkpoint(path)
    counts, specs = count(model, card), router_specs(model, card)
    facts = {
        "checkpoint": str(path),
        "architecture": card.architecture,
        "kind": "dense" if card.spec is None else f"MoE, {card.spec.router.kind} routing",
        "classes": _few(card.classes),
        "input": f"{card.transform.channels} × {card.transform.size} × {card.transform.size}",
        "source": card.source,
        "metrics": ", ".join(f"{name} {value:.4g}" for name, value in card.metrics.items()),
        "weights": card.sha256[:16],
        "parameters": f"{counts.total:,} ({counts.active:,} act on one token)",
        "FLOPs": f"{readable(counts.total_flops)} an image",
    }
    layers = (layers_table(specs.values()), "") if specs else ()
    lineage = lineage_rows(model, card)
    origin = ("[bold]lineage[/]", lineage_table(lineage), "") if lineage else ()
    return Answer(
        facts={
            **card.model_dump(mode="json"),
            "kind": "checkpoint",
            "path": str(path),
            "layers": [spec.model_dump(mode="json") for spec in specs.values()],
            "counts": counts._asdict(),
            "experts_from": [row._asdict() for row in lineage],
        },
        text=(facts_table(facts), "", *layers, *origin, _counts_table(counts)),
    )


def _counts_table(counts: Counts) -> Any:
    """Parameters and FLOPs of each part that has any."""
    from rich.table import Table

    from routelab.cli.tables import readable

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("part")
    table.add_column("parameters", justify="right")
    table.add_column("FLOPs", justify="right")
    for part in dict.fromkeys((*counts.parameters, *counts.flops)):
        parameters, flops = counts.parameters.get(part, 0), counts.flops.get(part, 0)
        if parameters or flops:
            table.add_row(part, f"{parameters:,}", readable(flops))
    return table


def _few(names: tuple[str, ...]) -> str:
    """How many names, and the first."""
    if not names:
        return ""
    return f"{len(names)}: {', '.join(names[:8])}{', …' if len(names) > 8 else ''}"
