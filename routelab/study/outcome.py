"""What came of one run, and of one arm? Read from logs and checkpoints, never from memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from routelab.data import open_data
from routelab.models import load_checkpoint
from routelab.records import ArmCard, ArmRun, GradientNorms, Point, Record
from routelab.study.config import Arm
from routelab.training import History, RunConfig, RunFolder, Update, evaluate, read_events
from routelab.training.plan import Plan
from routelab.training.ranks import ALONE


class Begun(Record):
    """How a run began: what its starting point is and cost, and how long it trains."""

    source: str
    seconds: float
    parameters: int
    active: int
    flops: float
    updates: int


class Outcome(Record):
    """A run that has ended."""

    run: ArmRun
    begun: Begun
    learning: int
    classes: int


def outcome_of(
    arm: str, seed: int, config: RunConfig, folder: RunFolder, history: History, begun: Begun
) -> Outcome:
    """Measure the last checkpoint on all held-out images, and read how it came there."""
    model, card = load_checkpoint(folder.last)
    data = config.data
    held_out = open_data(data.source, card.transform, split=data.validation)
    right = evaluate(model, held_out, device=config.device)
    run = ArmRun(
        arm=arm,
        seed=seed,
        accuracy=right.accuracy,
        images=right.n,
        points=_points(config, history, begun.flops),
        gradients=_gradients(folder.log),
    )
    return Outcome(run=run, begun=begun, learning=history.parameters, classes=len(held_out.classes))


def arm_card(name: str, arm: Arm, outcomes: list[Outcome]) -> ArmCard:
    """What the runs of one arm cost."""
    first, last = outcomes[0], [each.run.points[-1] for each in outcomes]
    return ArmCard(
        name=name,
        says=arm.says,
        start=first.begun.source,
        parameters=first.begun.parameters,
        active=first.begun.active,
        learning=first.learning,
        flops=first.begun.flops,
        updates=last[0].updates,
        images=last[0].images,
        training_flops=last[0].flops,
        seconds=float(np.mean([point.seconds for point in last])),
        start_seconds=float(np.mean([each.begun.seconds for each in outcomes])),
    )


def _points(config: RunConfig, history: History, flops: float) -> tuple[Point, ...]:
    """Where the run stood after each epoch."""
    plan = Plan.of(config.recipe, history.images, ALONE)
    points, seconds, before = [], 0.0, 0
    for epoch in history.epochs:
        images = plan.images_after(epoch.update)
        seconds += (images - before) / epoch.images_per_second
        before = images
        if epoch.validation is not None:
            points.append(
                Point(
                    updates=epoch.update,
                    images=images,
                    flops=3 * flops * images,
                    seconds=seconds,
                    accuracy=epoch.validation,
                )
            )
    return tuple(points)


def _gradients(log: Path) -> GradientNorms:
    """Over the updates that were logged; one that overflowed is left out."""
    updates = [event for event in read_events(log) if isinstance(event, Update)]
    norms = np.array([event.gradient_norm for event in updates])
    routers = [n["router"] for n in (e.gradient_norms for e in updates) if "router" in n]
    finite = norms[np.isfinite(norms)]
    return GradientNorms(
        mean=float(finite.mean()) if len(finite) else float("nan"),
        largest=float(finite.max()) if len(finite) else float("nan"),
        router=float(np.mean(routers)) if routers else None,
    )
