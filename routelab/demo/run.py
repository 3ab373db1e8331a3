"""How does the demo go from nothing to its findings, and again without doing anything twice?"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from routelab.data import in_memory, open_data
from routelab.demo.findings import Findings, finding_of
from routelab.demo.steps import (
    Plan,
    Told,
    Workshop,
    analysed_store,
    captured_store,
    dense_model,
    moe_checkpoint,
    written_report,
)
from routelab.demo.variants import TRANSFORM, VARIANTS
from routelab.records import Refusal
from routelab.training import evaluate

MARK = "demo.json"
"""What the folder was made with; a folder without it is not the demo's and stays untouched."""


def run_demo(
    out: Path,
    *,
    quick: bool = False,
    overwrite: bool = False,
    seed: int = 0,
    told: Told = print,
    doing: Told = lambda says: None,
) -> Findings:
    """Train, copy or recycle, fine-tune, capture, analyse and report; finished steps are kept.

    Parameters
    ----------
    out
        Folder of everything that is made.
    quick
        The least training that shows every step; the numbers mean nothing.
    overwrite
        Begin anew in a folder of an earlier demo.
    seed
        Of training and analysis.
    told
        Given one line after each step.
    doing
        Given what is being done, often, for a line that is drawn over.

    Raises
    ------
    Refusal
        A folder that holds something else, or a demo with other options.
    """
    prepare_folder(out, {"quick": quick, "seed": seed}, overwrite=overwrite)
    plan = Plan.chosen(quick=quick)
    shop = Workshop(
        out=out,
        plan=plan,
        seed=seed,
        training=in_memory(
            open_data("digits", TRANSFORM, split="train", limit=plan.training_images)
        ),
        testing=in_memory(open_data("digits", TRANSFORM, split="test")),
        told=told,
        doing=doing,
    )
    dense, card = dense_model(shop)
    found = []
    for variant in VARIANTS:
        checkpoint = moe_checkpoint(shop, variant, dense, card)
        store = analysed_store(shop, variant, captured_store(shop, variant, checkpoint))
        written_report(shop, variant, store)
        found.append(finding_of(variant, store))
    right = evaluate(dense, shop.testing)
    return Findings(out, right.accuracy, right.n, tuple(found))


def prepare_folder(out: Path, options: dict[str, object], *, overwrite: bool) -> None:
    """Make the folder, or see that it is one of the demo's with the same options."""
    mark = out / MARK
    occupied = out.exists() and (not out.is_dir() or any(out.iterdir()))
    if occupied and not mark.exists():
        raise Refusal(f"{out} holds other files; give another --out for the demo")
    if occupied and overwrite:
        shutil.rmtree(out)
    elif occupied and json.loads(mark.read_text()) != options:
        raise Refusal(
            f"{out} holds a demo with other options; begin anew with --overwrite, or give "
            "another --out"
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
        mark.write_text(json.dumps(options))
    except OSError as error:
        raise Refusal(f"{out} cannot be written ({error.strerror}); give another --out") from error
