import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routelab import metrics
from tests.metrics.catalogue import seeds


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 4), max_size=40), seeds)
def test_halves_are_disjoint_and_even_within_class(labels, seed):
    first, second = metrics.split_halves(labels, seed=seed)
    assert (first ^ second).all()
    for c in set(labels):
        own = np.array(labels) == c
        assert abs(first[own].sum() - second[own].sum()) <= 1


def test_the_same_seed_gives_the_same_halves():
    labels = np.arange(30) % 3
    first, again, other = (metrics.split_halves(labels, seed=seed).first for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def noise(images: int, seed: int = 0):
    """Labels of 100 classes and experts of pure noise."""
    labels = np.arange(100).repeat(images)
    experts = np.random.default_rng(seed).integers(0, 8, len(labels))
    return labels, metrics.hard_profile(experts, experts=8)


def test_choosing_and_measuring_on_the_same_images_finds_structure_in_noise():
    labels, rows = noise(50)
    assert metrics.max_share(labels, rows).macro == pytest.approx(0.198, abs=0.005)
    assert metrics.held_out_share(labels, rows).macro == pytest.approx(1 / 8, abs=0.012)


def test_planted_structure_is_there_in_the_other_half():
    labels = np.arange(400) % 4
    found = metrics.held_out_share(labels, metrics.hard_profile(labels, experts=4), classes=5)
    assert found.macro == 1
    assert found.expert.tolist() == [0, 1, 2, 3, -1]
    assert np.isnan(found.per_class[4])


def test_a_class_of_one_image_is_missing_in_a_half():
    found = metrics.held_out_share([0, 1, 1], np.eye(2)[[0, 1, 1]])
    assert np.isnan(found.per_class[0])
    assert found.macro == 1
    assert np.isnan(metrics.held_out_share([0], np.eye(2)[[0]]).macro)


def test_classes_are_sorted_by_expert_with_empty_ones_last():
    profile = [[np.nan, np.nan], [0.3, 0.7], [0.6, 0.4], [0.9, 0.1], [0.1, 0.9]]
    assert metrics.class_order(profile).tolist() == [3, 2, 4, 1, 0]


def class_profiles(labels, rows):
    return (
        metrics.class_profile(labels[half], rows[half], classes=labels.max() + 1)
        for half in metrics.split_halves(labels)
    )


def test_reliability_of_noise_is_zero_even_where_experts_are_uneven():
    labels = np.arange(100).repeat(20)
    generator = np.random.default_rng(0)
    experts = generator.choice(4, len(labels), p=[0.7, 0.1, 0.1, 0.1])
    first, second = class_profiles(labels, metrics.hard_profile(experts, experts=4))
    assert np.corrcoef(first.ravel(), second.ravel())[0, 1] > 0.8, "uneven load alone"
    assert metrics.split_half_correlation(first, second) == pytest.approx(0, abs=0.12)


def test_reliability_of_structure_is_one():
    labels = np.arange(400) % 4
    first, second = class_profiles(labels, metrics.hard_profile(labels, experts=4))
    assert metrics.split_half_correlation(first, second) == pytest.approx(1)


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_reliability_agrees_with_numpy(seed):
    first, second = np.random.default_rng(seed).random((2, 6, 3))
    expected = np.corrcoef(
        (first - first.mean(axis=0)).ravel(), (second - second.mean(axis=0)).ravel()
    )[0, 1]
    assert metrics.split_half_correlation(first, second) == pytest.approx(expected)


def test_reliability_is_undefined_where_nothing_varies():
    even = np.full((3, 2), 0.5)
    assert np.isnan(metrics.split_half_correlation(even, even))
    gaps = np.array([[0.2, 0.8], [np.nan, np.nan]])
    assert np.isnan(metrics.split_half_correlation(gaps, gaps))
    with pytest.raises(ValueError, match="class profiles must be two"):
        metrics.split_half_correlation(even, even[:2])
