"""How does a study read? Tables in Markdown, and one HTML page with curves."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from routelab import __version__
from routelab.figures import Caption, Learning, learning_curves
from routelab.metrics import Interval, pooled_interval
from routelab.records import ArmCard, ArmRun, Comparison
from routelab.report.comparison import Row, comparison_rows
from routelab.report.content import Picture, Section, Table, Words
from routelab.report.render import page

INTERVAL = "95 %, Student, over seeds"
NOTE = (
    "Intervals are over training seeds with one set of held-out images. A difference is taken seed "
    "by seed; where its interval holds 0, chance alone may have made it. FLOPs of training count "
    "three forward passes for each image; gradient norms are those before clipping."
)
RESULTS = (
    "arm",
    "seeds",
    "accuracy",
    INTERVAL,
    "against baseline",
    "95 %, paired by seed",
    "gradient norm, mean",
    "largest",
    "of routers, mean",
)
COSTS = (
    "arm",
    "start",
    "parameters",
    "used by a token",
    "learn",
    "GFLOPs an image",
    "updates",
    "images seen",
    "TFLOPs of training",
    "s of training",
    "s to start",
)


def comparison_tables(comparison: Comparison) -> str:
    """Both tables and their note, as Markdown."""
    rows = comparison_rows(comparison)
    return "\n".join(
        [
            f"# {comparison.name}",
            "",
            _about(comparison),
            "",
            _markdown(RESULTS, [_result(row, comparison.baseline) for row in rows]),
            "",
            _markdown(COSTS, [_cost(card) for card in comparison.arms]),
            "",
            NOTE,
            "",
        ]
    )


def comparison_page(comparison: Comparison) -> str:
    """The whole page: results, curves, costs."""
    rows = comparison_rows(comparison)
    results = Table(RESULTS, [_result(row, comparison.baseline) for row in rows])
    arms = [(card.name, card.says) for card in comparison.arms]
    costs = Table(COSTS, [_cost(card) for card in comparison.arms])
    sections = {
        "results": Section(
            "Results",
            (results, Words(NOTE)),
            "Which arm is right more often, after spending the same?",
        ),
        "curves": Section(
            "Convergence", (Picture(_curves(comparison)),), "How fast does each arm learn?"
        ),
        "arms": Section(
            "Arms",
            (Table(("arm", "what it is"), arms), costs),
            "What is each arm, and what does it cost?",
        ),
    }
    tiles = [
        (str(len(comparison.arms)), "arms", ""),
        (str(len({run.seed for run in comparison.runs})), "seeds", ""),
        (comparison.budget, "for each run", ""),
        (f"{comparison.runs[0].images:,}", "held-out images", ""),
    ]
    subtitle = f"{_about(comparison)} · RouteLab {__version__}"
    return page(f"Study: {comparison.name}", subtitle, tiles, sections)


def _about(comparison: Comparison) -> str:
    """What was studied, in one line."""
    parts = [comparison.says, f"data: {comparison.data}", f"budget of a run: {comparison.budget}"]
    return " · ".join(part for part in (*parts, f"baseline: {comparison.baseline}") if part)


def _curves(comparison: Comparison) -> go.Figure:
    """Accuracy after each epoch against updates, FLOPs and time."""
    arms = {
        card.name: _learning([run for run in comparison.runs if run.arm == card.name])
        for card in comparison.arms
    }
    seeds = len({run.seed for run in comparison.runs})
    return learning_curves(
        {name: arm for name, arm in arms.items() if arm is not None},
        axes=("updates", "TFLOPs of training", "seconds of training"),
        unit="accuracy",
        chance=1 / comparison.classes,
        title="Accuracy on held-out images while training",
        caption=Caption(
            n=seeds,
            of="seeds an arm",
            chance=f"1/{comparison.classes} by guessing",
            interval=INTERVAL,
            notes=(
                "Points are taken after each epoch, on the held-out images that the runs watch; "
                "the table counts all held-out images.",
            ),
        ),
    )


def _learning(runs: Sequence[ArmRun]) -> Learning | None:
    """Means over the seeds of an arm at its common evaluations."""
    count = min(len(run.points) for run in runs)
    if count == 0:
        return None
    accuracy = np.array([[p.accuracy for p in run.points[:count]] for run in runs])
    seconds = np.array([[p.seconds for p in run.points[:count]] for run in runs])
    intervals = np.array([pooled_interval(column) for column in accuracy.T])
    points = runs[0].points[:count]
    return Learning(
        spent={
            "updates": [p.updates for p in points],
            "TFLOPs of training": [p.flops / 1e12 for p in points],
            "seconds of training": seconds.mean(axis=0),
        },
        value=accuracy.mean(axis=0),
        low=intervals[:, 0],
        high=intervals[:, 1],
    )


def _result(row: Row, baseline: str) -> list[str]:
    is_base = row.arm == baseline
    return [
        row.arm,
        str(row.seeds),
        f"{row.accuracy:.1%}",
        _interval(row.interval),
        "baseline" if is_base else f"{100 * row.difference:+.1f} points",
        "" if is_base else _interval(row.difference_interval, signed=True),
        f"{row.gradient:.2f}",
        f"{row.largest:.1f}",
        "no router" if math.isnan(row.router) else f"{row.router:.2g}",
    ]


def _cost(card: ArmCard) -> list[str]:
    return [
        card.name,
        card.start,
        f"{card.parameters / 1e6:.1f} M",
        f"{card.active / 1e6:.1f} M",
        f"{card.learning / 1e6:.1f} M",
        f"{card.flops / 1e9:.2f}",
        f"{card.updates:,}",
        f"{card.images:,}",
        f"{card.training_flops / 1e12:.1f}",
        f"{card.seconds:.0f}",
        f"{card.start_seconds:.1f}",
    ]


def _interval(interval: Interval, *, signed: bool = False) -> str:
    """In percent, or in points with their sign; one seed has none."""
    low, high = interval
    if math.isnan(low):
        return "one seed: none"
    if signed:
        return f"{100 * low:+.1f} to {100 * high:+.1f}"
    return f"{100 * low:.1f} to {100 * high:.1f}"


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
