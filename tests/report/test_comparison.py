"""A study's table holds SciPy's intervals, and its page loads nothing."""

import math

import numpy as np
import pytest
from scipy import stats

from routelab.records import ArmCard, ArmRun, Comparison, GradientNorms, Point
from routelab.report import comparison_page, comparison_rows, comparison_tables

ACCURACY = {"dense": [0.5, 0.6, 0.7], "moe": [0.55, 0.62, 0.78]}


def comparison(accuracy=ACCURACY, name="moe"):
    """Arms with these accuracies by seed."""
    cards, runs = [], []
    for arm, values in accuracy.items():
        cards.append(
            ArmCard(
                name=arm,
                says=f"{arm} <b>",
                start="",
                parameters=2_000_000,
                active=1_000_000,
                learning=2_000_000,
                flops=3e9,
                updates=20,
                images=640,
                training_flops=9e9 * 640,
                seconds=12.0,
                start_seconds=0.5,
            )
        )
        for seed, value in enumerate(values):
            points = tuple(
                Point(updates=u, images=32 * u, flops=3e11 * u, seconds=u, accuracy=value * u / 20)
                for u in (10, 20)
            )
            router = None if arm == "dense" else 0.1
            norms = GradientNorms(mean=2.0, largest=4.0 + seed, router=router)
            runs.append(
                ArmRun(
                    arm=arm, seed=seed, accuracy=value, images=100, points=points, gradients=norms
                )
            )
    return Comparison(
        name=name,
        says="",
        data="digits, test",
        classes=10,
        budget="20 updates",
        baseline="dense",
        arms=tuple(cards),
        runs=tuple(runs),
    )


def test_rows_equal_scipys_intervals():
    dense, moe = comparison_rows(comparison())
    assert dense.accuracy == pytest.approx(0.6)
    assert math.isnan(dense.difference)
    mean = stats.ttest_1samp(ACCURACY["moe"], 0).confidence_interval(0.95)
    assert moe.interval == pytest.approx((mean.low, mean.high))
    paired = stats.ttest_rel(ACCURACY["moe"], ACCURACY["dense"]).confidence_interval(0.95)
    assert moe.difference == pytest.approx(0.05)
    assert moe.difference_interval == pytest.approx((paired.low, paired.high))
    assert (moe.largest, moe.router) == (6.0, pytest.approx(0.1))
    assert math.isnan(dense.router)


def test_one_seed_has_no_interval_and_says_so():
    made = comparison({"dense": [0.5], "moe": [0.6]})
    assert np.isnan(comparison_rows(made)[1].difference_interval).all()
    assert "one seed: none" in comparison_tables(made)
    assert "Accuracy on held-out images" in comparison_page(made)


def test_tables_say_what_was_measured():
    tables = comparison_tables(comparison())
    assert "| moe | 3 | 65.0% |" in tables
    assert "+5.0 points" in tables
    assert "| 3.00 | 20 | 640 | 5.8 | 12 | 0.5 |" in tables


def test_the_page_is_whole_and_names_are_data():
    page = comparison_page(comparison(name="<script>alert(1)</script>"))
    assert "<script>alert(1)" not in page
    assert "moe &lt;b&gt;" in page
    assert 'src="http' not in page
    assert "TFLOPs of training" in page
    assert "n = 3 seeds an arm" in page
