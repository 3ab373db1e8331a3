"""What does a study say? One row an arm: mean, interval over seeds, difference seed by seed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from routelab.metrics import Interval, pooled_interval
from routelab.records import ArmRun, Comparison


class Row(NamedTuple):
    """One arm.

    `accuracy` is the mean over seeds, `interval` Student's 95 % interval of it (NaN for one seed);
    `difference` is the mean of arm − baseline with the same seed, NaN for the baseline itself.
    `gradient`, `largest` and `router` are norms before clipping: mean and largest over updates, and
    the mean of the routers' part (NaN for a dense model), each a mean over seeds but `largest`.
    """

    arm: str
    seeds: int
    accuracy: float
    interval: Interval
    difference: float
    difference_interval: Interval
    gradient: float
    largest: float
    router: float


def comparison_rows(comparison: Comparison) -> list[Row]:
    """The arms in the study's order."""
    by_arm = {card.name: _runs(comparison, card.name) for card in comparison.arms}
    base = by_arm[comparison.baseline]
    return [_row(name, runs, base, name == comparison.baseline) for name, runs in by_arm.items()]


def _runs(comparison: Comparison, arm: str) -> dict[int, ArmRun]:
    """Runs of an arm by seed."""
    return {run.seed: run for run in comparison.runs if run.arm == arm}


def _row(arm: str, runs: Mapping[int, ArmRun], base: Mapping[int, ArmRun], is_base: bool) -> Row:
    accuracy = [run.accuracy for run in runs.values()]
    paired = [] if is_base else [runs[s].accuracy - base[s].accuracy for s in runs if s in base]
    routers = [r.gradients.router for r in runs.values() if r.gradients.router is not None]
    return Row(
        arm=arm,
        seeds=len(runs),
        accuracy=float(np.mean(accuracy)),
        interval=pooled_interval(accuracy),
        difference=float(np.mean(paired)) if paired else float("nan"),
        difference_interval=pooled_interval(paired),
        gradient=float(np.mean([run.gradients.mean for run in runs.values()])),
        largest=max(run.gradients.largest for run in runs.values()),
        router=float(np.mean(routers)) if routers else float("nan"),
    )
