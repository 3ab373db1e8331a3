import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from routelab import metrics


def test_intervals_of_three_of_four_in_the_catalogue():
    right = np.array([1, 1, 0, 1])
    found = metrics.bootstrap_interval(lambda rows: right[rows].mean(), np.zeros(4), resamples=4000)
    assert found == (0.25, 1)
    assert metrics.wilson_interval(3, 4) == pytest.approx((0.3006418, 0.9544127), abs=1e-6)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 500), st.floats(0, 1), st.sampled_from([0.9, 0.95, 0.99]))
def test_wilson_agrees_with_scipy(n, share, confidence):
    successes = round(share * n)
    expected = stats.binomtest(successes, n).proportion_ci(confidence, method="wilson")
    found = metrics.wilson_interval(successes, n, confidence=confidence)
    assert found == pytest.approx((expected.low, expected.high), abs=1e-9)


@pytest.mark.parametrize(("method", "library"), [("percentile", "percentile"), ("bca", "BCa")])
def test_bootstrap_agrees_with_scipy(method, library):
    values = np.random.default_rng(0).exponential(size=40)
    found = metrics.bootstrap_interval(
        lambda rows: values[rows].mean(), np.zeros(40), resamples=4000, method=method
    )
    expected = stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, method=library, rng=np.random.default_rng(1)
    ).confidence_interval
    assert found == pytest.approx((expected.low, expected.high), abs=0.04)


def test_bca_moves_with_the_skew():
    values = np.random.default_rng(0).exponential(size=40)
    plain, corrected = (
        metrics.bootstrap_interval(
            lambda rows: values[rows].mean(), np.zeros(40), resamples=4000, method=method
        )
        for method in ("percentile", "bca")
    )
    assert corrected.low > plain.low
    assert corrected.high > plain.high


def test_images_stay_in_their_class():
    strata = np.array([5, 0, 5, 0, 0, 2])
    for rows in metrics.resampled_rows(strata, 20, seed=0):
        assert np.array_equal(strata[rows], strata)


def test_each_image_of_a_class_is_as_likely():
    strata = np.array([0, 1, 1, 0, 0])
    drawn = np.concatenate(list(metrics.resampled_rows(strata, 6000, seed=0)))
    assert np.bincount(drawn) / 6000 == pytest.approx(np.ones(5), abs=0.05)


def test_an_interval_covers_the_truth_about_as_often_as_it_says():
    generator = np.random.default_rng(0)
    covered = 0
    for run in range(150):
        values = generator.normal(size=30)
        low, high = metrics.bootstrap_interval(
            lambda rows, values=values: values[rows].mean(), np.zeros(30), resamples=200, seed=run
        )
        covered += low <= 0 <= high
    assert covered / 150 == pytest.approx(0.93, abs=0.06)


def test_bootstrap_biases_information_and_repeated_rows_but_not_the_weighted_contrast():
    generator = np.random.default_rng(0)
    labels, away = np.arange(60) % 6, []
    for run in range(40):
        rows = metrics.hard_profile(generator.integers(0, 4, 60), experts=4)
        information = metrics.table_information(metrics.class_sums(labels, rows, classes=6))
        contrast = metrics.agreement(labels, rows).contrast
        for drawn in metrics.resampled_rows(labels, 25, seed=run):
            table = metrics.class_sums(labels, rows[drawn], classes=6)
            weights = np.bincount(drawn, minlength=60)
            away.append(
                (
                    metrics.table_information(table) - information,
                    metrics.agreement(labels, rows[drawn]).contrast - contrast,
                    metrics.agreement(labels, rows, weights=weights).contrast - contrast,
                )
            )
    of_information, of_copies, of_weights = np.mean(away, axis=0)
    assert of_information > 0.05
    assert of_copies == pytest.approx((1 - 1 / 4) / 10, abs=0.01)
    assert of_weights == pytest.approx(0, abs=0.005)


def test_a_constant_statistic_has_a_point_for_an_interval():
    for method in ("percentile", "bca"):
        found = metrics.bootstrap_interval(
            lambda rows: 0.5, np.zeros(3), resamples=20, method=method
        )
        assert found == (0.5, 0.5)


def test_one_image_and_none():
    found = metrics.bootstrap_interval(lambda rows: 2.0, [0], resamples=9, method="bca")
    assert found == (2, 2)
    assert np.isnan(metrics.bootstrap_interval(lambda rows: 2.0, [])).all()


def test_paired_differences_are_surer_than_two_separate_ones():
    generator = np.random.default_rng(0)
    ease = generator.normal(size=200)
    first, second = ease + 0.1 + 0.1 * generator.normal(size=200), ease
    low, high = metrics.paired_bootstrap(first, second, np.zeros(200))
    assert 0 < low < 0.1 < high
    mean = (first - second).mean()
    half = 1.96 * (first - second).std() / np.sqrt(200)
    assert (low, high) == pytest.approx((mean - half, mean + half), abs=0.003)


def test_interval_over_seeds_is_students():
    values = [0.71, 0.74, 0.72, 0.76]
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert metrics.pooled_interval(values) == pytest.approx((expected.low, expected.high))
    assert np.isnan(metrics.pooled_interval([0.7])).all(), "one seed says nothing of others"


def test_design_effect_of_the_catalogue():
    effect = metrics.design_effect(196, 0.1)
    assert effect == pytest.approx(20.5)
    assert 19_600 / effect == pytest.approx(956, abs=0.2)


def test_no_trial_has_no_interval():
    assert np.isnan(metrics.wilson_interval(0, 0)).all()


def test_wrong_input_is_refused_by_name():
    with pytest.raises(ValueError, match="successes must be from 0 to n"):
        metrics.wilson_interval(5, 4)
    with pytest.raises(ValueError, match="method is percentile or bca"):
        metrics.bootstrap_interval(lambda rows: 0.0, [0, 0], method="normal")
    with pytest.raises(ValueError, match="first has 2 rows and second has 1"):
        metrics.paired_bootstrap([1, 2], [1], [0, 0])
    with pytest.raises(ValueError, match="second holds NaN"):
        metrics.paired_bootstrap([1, 2], [1, np.nan], [0, 0])
