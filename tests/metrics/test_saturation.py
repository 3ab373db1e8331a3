import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routelab import metrics
from tests.metrics.catalogue import seeds

NOW = [[0, 1], [0, 1], [0, 2], [2, 3]]
BEFORE = [[0, 1], [0, 2], [0, 2], [1, 3]]


def test_saturation_of_the_fixture():
    found = metrics.router_saturation(NOW, BEFORE, experts=4)
    assert found == pytest.approx((0.75, 0.5, 0.5, 2 / 3))


@settings(max_examples=25, deadline=None)
@given(seeds, st.integers(1, 4))
def test_saturation_agrees_with_sets_and_is_k_of_e_by_chance(seed, k):
    generator = np.random.default_rng(seed)
    first, second = (
        generator.permuted(np.tile(np.arange(5), (9, 1)), axis=1)[:, :k] for _ in range(2)
    )
    pairs = [(set(a), set(b)) for a, b in zip(first.tolist(), second.tolist(), strict=True)]
    found = metrics.router_saturation(first, second, experts=5)
    assert found.overlap == pytest.approx(np.mean([len(a & b) / k for a, b in pairs]))
    assert found.iou == pytest.approx(np.mean([len(a & b) / len(a | b) for a, b in pairs]))
    assert found.chance == k / 5
    same = metrics.router_saturation(first, first[:, ::-1], experts=5)
    assert same == pytest.approx((1, k / 5, 1, 1))


def test_every_expert_chosen_leaves_nothing_above_chance_and_no_token_nothing():
    found = metrics.router_saturation([[0, 1]], [[1, 0]], experts=2)
    assert found[:2] == (1, 1)
    assert np.isnan(found.adjusted)
    nobody = np.zeros((0, 2))
    empty = metrics.router_saturation(nobody, nobody, experts=4)
    assert empty.chance == 0.5
    assert np.isnan([empty.overlap, empty.adjusted, empty.iou]).all()


def test_three_overlaps_of_the_worked_example():
    first, second = np.array([0.6, 0.4, 0]), np.array([0.6, 0, 0.4])
    both, either = ((first > 0) & (second > 0)).sum(), ((first > 0) | (second > 0)).sum()
    assert both / either == pytest.approx(1 / 3)
    assert metrics.weighted_jaccard(first, second) == pytest.approx(0.4285714, abs=1e-6)
    assert 1 - metrics.jensen_shannon_divergence(first, second) == pytest.approx(0.6, abs=1e-6)
    assert metrics.weighted_jaccard(first, first) == 1


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_a_set_overlap_is_always_1_under_soft_routing_where_the_weighted_one_is_not(seed):
    first, second = np.random.default_rng(seed).dirichlet(np.ones(4), (2, 3))
    assert ((first > 0) == (second > 0)).all()
    found = metrics.weighted_jaccard(first, second)
    for row, a, b in zip(found, first, second, strict=True):
        pairs = list(zip(a, b, strict=True))
        assert row == pytest.approx(sum(map(min, pairs)) / sum(map(max, pairs)))
    assert (found < 1).all()


def test_what_is_no_choice_and_no_weight_is_refused_by_name():
    wrong = {
        "must be two arrays": ([[0, 1]], [[0]]),
        "first must hold k choices": ([0, 1], [0, 1]),
        "first chooses an expert twice": ([[0, 0]], [[0, 1]]),
        "second must choose experts from 0 to 3": ([[0, 1]], [[0, 4]]),
        "first holds negative": ([[0, -1]], [[0, 1]]),
        "first must be whole numbers": ([[0, np.nan]], [[0, 1]]),
    }
    for says, choices in wrong.items():
        with pytest.raises(ValueError, match=says):
            metrics.router_saturation(*choices, experts=4)
    assert np.isnan(metrics.weighted_jaccard([0, 0], [0, 0]))
    with pytest.raises(ValueError, match="second holds NaN"):
        metrics.weighted_jaccard([0, 1], [np.nan, 1])
    with pytest.raises(ValueError, match="first holds negative"):
        metrics.weighted_jaccard([-1, 2], [0, 1])
    with pytest.raises(ValueError, match="differ in shape"):
        metrics.weighted_jaccard([0, 1], [0, 1, 0])
