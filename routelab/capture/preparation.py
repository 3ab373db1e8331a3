"""What will be written, and may it be? Everything between opened inputs and the first byte."""

from __future__ import annotations

import shutil
from dataclasses import replace
from itertools import islice
from pathlib import Path

from routelab.capture.options import CaptureOptions
from routelab.capture.plan import (
    Plan,
    choose_shard,
    fit_budget,
    parse_bytes,
    plan_capture,
    readable,
)
from routelab.capture.probe import BATCHES, Probe, probe
from routelab.capture.session import Session
from routelab.records import Refusal, StoreCard
from routelab.store import FORMAT


def check_output(options: CaptureOptions) -> None:
    """Refuse, before any work, an output that exists or one that should and does not."""
    if options.resume and options.overwrite:
        raise Refusal("--resume keeps the store and --overwrite replaces it; give one of them")
    if options.dry_run:
        return
    if options.resume and not options.out.exists():
        raise Refusal(f"there is nothing to resume at {options.out}; leave --resume out")
    if is_there(options.out) and not (options.resume or options.overwrite):
        raise Refusal(
            f"{options.out} exists; go on with --resume, replace it with --overwrite, or give "
            "another --out"
        )


def is_there(path: Path) -> bool:
    """True for a file, or a folder that is not empty."""
    return path.exists() and not (path.is_dir() and not any(path.iterdir()))


def look(session: Session) -> Probe:
    """Probe the first batches."""
    size, device = session.capture.batch_size, session.forward.machine.device
    batches = [
        (batch.pixels.to(device), session.labels(batch.labels).to(device))
        for batch in islice(session.data.batches(size), BATCHES)
    ]
    return probe(session.forward, session.specs, session.detail(session.capture), batches)


def make_plan(session: Session, seen: Probe, options: CaptureOptions) -> Plan:
    """What will be stored, within the budget.

    Raises
    ------
    Refusal
        If the budget or the shard cannot be kept.
    """
    card, classes = session.capture, len(session.data.classes)
    shard = options.shard or choose_shard(seen.layout, card.batch_size)
    if shard % card.batch_size:
        raise Refusal(
            f"a shard of {shard} images is no multiple of the batch of {card.batch_size}; "
            "give --shard a multiple of --batch-size"
        )
    card = card.model_copy(update={"shard": shard})
    plan = plan_capture(card, seen.specs, seen.layout, len(session.data), classes=classes)
    plan = replace(plan, seconds_per_batch=seen.seconds_per_batch, refused=seen.refused)
    if options.budget is None:
        return plan
    return fit_budget(plan, seen.layout, parse_bytes(options.budget), classes=classes)


def check_space(plan: Plan, out: Path) -> None:
    """Refuse a plan that the disk has no room for, before anything is written."""
    folder = next(parent for parent in out.absolute().parents if parent.exists())
    free = shutil.disk_usage(folder).free
    if plan.bytes > free:
        raise Refusal(
            f"the plan takes {readable(plan.bytes)} and {folder} has {readable(free)} free; free "
            "some space, give --out on another disk, or a --budget below what is free"
        )


def store_card(session: Session, seen: Probe, plan: Plan) -> StoreCard:
    """The card of a store that is still empty."""
    return StoreCard(
        format=FORMAT,
        model=session.model_card,
        data=session.data.card,
        capture=plan.card,
        layers=seen.specs,
        refused=seen.refused,
    )
