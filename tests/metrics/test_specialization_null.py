from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon

from routelab import metrics
from tests.metrics.catalogue import LABELS, PROFILES, one_hot, random_profiles, seeds


@pytest.mark.parametrize(("count", "mean"), [(1, 0.3112781), (2, 0.1556391), (4, 0.0633072)])
def test_chance_of_divergence_for_a_small_count(count, mean):
    assert metrics.multinomial_divergence([0.5, 0.5], count) == pytest.approx(mean, abs=1e-6)
    assert metrics.multinomial_divergence([30, 30], count) == pytest.approx(mean, abs=1e-6)


@settings(max_examples=25, deadline=None)
@given(seeds, st.integers(1, 4))
def test_chance_of_divergence_equals_the_mean_over_all_sequences_of_images(seed, count):
    mix = np.random.default_rng(seed).dirichlet(np.ones(3))
    expected = sum(
        np.prod(mix[list(drawn)])
        * jensenshannon(np.bincount(drawn, minlength=3) / count, mix, base=2) ** 2
        for drawn in product(range(3), repeat=count)
    )
    assert metrics.multinomial_divergence(mix, count) == pytest.approx(expected, abs=1e-7)
    with_empty = np.append(mix, 0)
    assert metrics.multinomial_divergence(with_empty, count) == pytest.approx(expected, abs=1e-7)


def test_many_outcomes_are_drawn_and_the_same_seed_draws_the_same():
    mix = np.full(40, 1 / 40)
    first, again = (metrics.multinomial_divergence(mix, 30, draws=50, seed=1) for _ in range(2))
    assert first == again
    assert 0.2 < first < 0.6


def test_drawn_chance_is_near_the_exact_one():
    exact = metrics.multinomial_divergence([0.5, 0.5], 9_999)
    drawn = metrics.multinomial_divergence([0.5, 0.5], 10_000, draws=4000)
    assert drawn == pytest.approx(exact, rel=0.1)


def test_no_image_and_no_mix_have_no_chance():
    assert np.isnan(metrics.multinomial_divergence([0.5, 0.5], 0))
    assert np.isnan(metrics.multinomial_divergence([0, 0], 3))


def test_an_expert_of_one_image_is_at_chance_exactly():
    found = metrics.divergence_test(LABELS, one_hot("partial"))
    assert found.exact
    np.testing.assert_allclose(found.observed, [0.0207208, 0.3112781], atol=1e-6)
    assert found.chance[1] == pytest.approx(0.3112781, abs=1e-6)
    assert found.excess[1] == pytest.approx(0, abs=1e-12)
    assert found.p.tolist() == [1, 1]
    one_image = metrics.multinomial_divergence([0.5, 0.5], 1)
    assert found.chance[1] == pytest.approx(one_image)


def test_perfect_experts_of_four_images_reach_a_third():
    found = metrics.divergence_test(LABELS, one_hot("perfect"))
    assert found.p == pytest.approx([1 / 3, 1 / 3])
    assert found.observed == pytest.approx([0.3112781, 0.3112781], abs=1e-6)


def test_a_dead_expert_and_a_single_class_are_nan():
    found = metrics.divergence_test(LABELS, one_hot("collapsed"))
    for part in found[:4]:
        assert np.isnan(part).tolist() == [False, True]
    for part in metrics.divergence_test([0, 0, 0], np.eye(2)[[0, 1, 0]])[:4]:
        assert np.isnan(part).all()


@settings(max_examples=15, deadline=None)
@given(seeds)
def test_drawn_null_is_the_mean_of_shuffled_labels(seed):
    labels, rows = random_profiles(seed)
    found = metrics.divergence_test(labels, rows, permutations=20, seed=seed)
    assert not found.exact
    null = np.array(
        [
            metrics.expert_divergence(metrics.class_sums(drawn, rows, classes=4))
            for drawn in metrics.shuffles(labels, 20, seed=seed)
        ]
    )
    np.testing.assert_allclose(found.chance, null.mean(axis=0))
    np.testing.assert_allclose(found.excess, found.observed - found.chance)
    reached = (null >= found.observed - 1e-12).sum(axis=0)
    np.testing.assert_allclose(found.p, (1 + reached) / 21)


def test_without_a_draw_there_is_no_chance():
    labels, rows = random_profiles(0)
    found = metrics.divergence_test(labels, rows, permutations=0)
    assert np.isfinite(found.observed).all()
    assert np.isnan(found.p).all()


def test_wrong_input_is_refused_by_name():
    with pytest.raises(ValueError, match="labels has 3 rows and profile has 4"):
        metrics.divergence_test(LABELS[:3], PROFILES)
    with pytest.raises(ValueError, match="profile holds NaN"):
        metrics.divergence_test(LABELS, PROFILES * np.nan)
    with pytest.raises(ValueError, match="mix holds negative"):
        metrics.multinomial_divergence([-1, 2], 3)
