"""Which neurons: exact sizes, no neuron twice, the same seed the same indices, planted groups."""

import importlib.util

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

from routelab.records import Refusal
from routelab.recycling.selection import (
    METHODS,
    Coactivation,
    Neurons,
    Size,
    check_sizes,
    edge_weights,
    graph_neurons,
    important_neurons,
    partition,
    parts_mass,
    random_neurons,
    selector,
    uniform_indices,
)
from routelab.recycling.selection.drawing import weighted_draws
from routelab.recycling.selection.partition import available_method, rebalanced, swapped


def planted(neurons=768, groups=8, tokens=4000, seed=0):
    """Co-activation of neurons that fire with their group, and a little with any other."""
    generator = np.random.default_rng(seed)
    truth = generator.permutation(np.arange(neurons) % groups)
    group_on = generator.random((tokens, groups)) < 0.3
    fires = generator.random((tokens, neurons)) < np.where(group_on[:, truth], 0.6, 0.15)
    fires = fires.astype(np.float64)
    return truth, Coactivation(fires.T @ fires, fires.sum(axis=0), tokens)


PLANTED = planted()


def known(available=40, seed=3):
    """Neurons with a score and a co-activation."""
    _, coactivation = planted(available, 4, 200, seed)
    return Neurons(available, np.random.default_rng(seed).random(available), coactivation)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=15, deadline=None)
@given(
    sizes=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 40)), min_size=1, max_size=3),
    seed=st.integers(0, 100),
)
def test_every_expert_has_exactly_its_size(method, sizes, seed):
    sizes = [Size(*size) for size in sizes]
    select = selector(method, parts=6)
    chosen = select(known(), sizes, np.random.default_rng(seed))
    again = select(known(), sizes, np.random.default_rng(seed))
    for size, indices, repeated in zip(sizes, chosen, again, strict=True):
        assert indices.shape == (size.experts, size.hidden)
        assert (np.diff(indices, axis=1) > 0).all()
        assert indices.min() >= 0
        assert indices.max() < 40
        np.testing.assert_array_equal(indices, repeated)


@pytest.mark.parametrize("method", METHODS)
def test_an_expert_of_all_neurons_has_them_in_order(method):
    (indices,) = selector(method)(known(), [Size(2, 40)], np.random.default_rng(0))
    np.testing.assert_array_equal(indices, np.tile(np.arange(40), (2, 1)))


@pytest.mark.parametrize(
    ("available", "wanted"), [(384, 192), (1536, 768), (768, 384), (384, 144), (10, 3), (7, 7)]
)
def test_uniform_is_the_published_rule(available, wanted):
    if available % wanted == 0:
        step = available // wanted
        expected = [i * step for i in range(wanted)]
    else:
        expected = [round(i * (available - 1) / (wanted - 1)) for i in range(wanted)]
    assert uniform_indices(available, wanted).tolist() == expected


def test_draws_are_in_proportion_to_weights():
    weights = np.array([1.0, 2.0, 5.0])
    draws = weighted_draws(weights, 2, 40_000, np.random.default_rng(0))
    first = np.bincount(draws[:, 0], minlength=3) / len(draws)
    np.testing.assert_allclose(first, weights / 8, atol=0.01)
    after_the_heaviest = draws[draws[:, 0] == 2, 1]
    np.testing.assert_allclose((after_the_heaviest == 1).mean(), 2 / 3, atol=0.015)


def test_what_weighs_nothing_is_drawn_last():
    draws = weighted_draws(np.array([0.0, 1.0, 0.0, 3.0]), 3, 50, np.random.default_rng(0))
    assert set(draws[:, :2].ravel()) == {1, 3}
    assert set(draws[:, 2]) == {0, 2}


def test_top_takes_the_highest_scores_ties_by_index():
    score = np.array([1.0, 5.0, 3.0, 3.0, 3.0, 0.0])
    taken = important_neurons(score, 2, 3, np.random.default_rng(0), draw="top")
    np.testing.assert_array_equal(taken, [[1, 2, 3], [1, 2, 3]])


def test_important_neurons_are_taken_more_often():
    score = np.linspace(0.1, 2, 64)
    taken = important_neurons(score, 2000, 16, np.random.default_rng(0))
    often = np.bincount(taken.ravel(), minlength=64)
    assert np.corrcoef(often, score)[0, 1] > 0.98


def test_random_subsets_are_equally_likely():
    taken = random_neurons(5, 20_000, 2, np.random.default_rng(0))
    pairs = np.bincount(taken[:, 0] * 5 + taken[:, 1], minlength=25)
    np.testing.assert_allclose(pairs[pairs > 0] / 20_000, 0.1, atol=0.01)
    assert (pairs > 0).sum() == 10


@pytest.mark.parametrize("weights", ["lift", "count"])
@pytest.mark.parametrize("method", ["metis", "spectral", "louvain"])
def test_a_planted_partition_is_found(method, weights):
    truth, coactivation = PLANTED
    edges = edge_weights(coactivation, weights=weights)
    part = partition(edges, 8, seed=1, method=method)
    assert np.bincount(part).tolist() == [96] * 8
    assert adjusted_rand_score(truth, part) >= 0.98
    np.testing.assert_array_equal(part, partition(edges, 8, seed=1, method=method))


def test_experts_of_the_graph_are_whole_groups():
    truth, coactivation = PLANTED
    neurons = Neurons(768, coactivation=coactivation)
    select = selector("graph", parts=8)
    core, universal = select(neurons, [Size(5, 192), Size(6, 96)], np.random.default_rng(0))
    assert all(len(np.unique(truth[expert])) == 2 for expert in core)
    assert all(len(np.unique(truth[expert])) == 1 for expert in universal)


def test_parts_are_drawn_by_their_coactivation():
    part = np.array([0, 0, 1, 1, 2, 2])
    together = np.diag([9.0] * 6)
    for pair, mass in (((0, 1), 1.0), ((2, 3), 3.0), ((4, 5), 4.0)):
        together[pair] = together[pair[::-1]] = mass
    np.testing.assert_array_equal(parts_mass(part, together, 3), [1, 3, 4])
    taken = graph_neurons(part, together, 20_000, 2, np.random.default_rng(0))
    np.testing.assert_allclose(
        np.bincount(taken[:, 0] // 2) / 20_000, [1 / 8, 3 / 8, 1 / 2], atol=0.015
    )


def test_lift_by_hand():
    coactivation = Coactivation(
        np.array([[4.0, 2, 1], [2, 5, 1], [1, 1, 2]]), np.array([4.0, 5, 2]), 10
    )
    expected = [[0, 0, 10 / 8], [0, 0, 0], [10 / 8, 0, 0]]
    np.testing.assert_allclose(edge_weights(coactivation), expected)


def test_rebalancing_moves_the_least_tied():
    weights = np.zeros((6, 6))
    weights[:4, :4] = 1.0
    weights[3, 4] = weights[4, 3] = 3.0
    np.fill_diagonal(weights, 0)
    part = rebalanced(np.array([0, 0, 0, 0, 1, 1]), weights, 2)
    assert part.tolist() == [0, 0, 0, 1, 1, 1]


def test_two_misplaced_nodes_are_swapped():
    weights = np.kron(np.eye(2), np.ones((3, 3))) + 0.1
    part = swapped(np.array([0, 0, 1, 0, 1, 1]), weights, 2)
    assert part.tolist() == [0, 0, 0, 1, 1, 1]


def test_without_pymetis_clusters_are_spectral(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert available_method("metis") == "spectral"
    assert available_method("louvain") == "louvain"
    _, coactivation = planted(64, 4, 800)
    part = partition(edge_weights(coactivation), 4, seed=0)
    assert np.bincount(part).tolist() == [16] * 4


def test_more_neurons_than_there_are():
    with pytest.raises(Refusal, match="800 hidden neurons cannot be recycled from an MLP of 768"):
        check_sizes(768, [Size(2, 96), Size(1, 800)])
