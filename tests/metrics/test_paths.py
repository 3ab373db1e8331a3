"""P1–P7 and I3: who meets whom, who follows whom, who is whose neighbour."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_mutual_info_score, homogeneity_completeness_v_measure

from routelab import metrics

FX_K = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [0, 0, 1, 1]])
SEEDS = st.integers(0, 2**32 - 1)


def test_coactivation_of_the_fixture():
    together = metrics.coactivation_counts(FX_K)
    work = FX_K.sum(axis=0)
    matrix = metrics.coactivation_matrix(together, work)
    expected = {(0, 1): 2 / 3, (1, 0): 1, (0, 2): 1 / 3, (2, 0): 0.5, (2, 3): 0.5, (3, 2): 1}
    for pair, value in expected.items():
        assert matrix[pair] == pytest.approx(value)
    assert np.isnan(matrix.diagonal()).all()
    assert metrics.coactivation_chance(4, 2) == pytest.approx(1 / 3)
    assert metrics.coactivation_lift(together, work, 4)[0, 1] == pytest.approx(4 / 3)
    jaccard = metrics.coactivation_jaccard(together)
    assert [jaccard[0, 1], jaccard[0, 2], jaccard[2, 3]] == pytest.approx([2 / 3, 0.25, 0.5])


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_every_pair_of_a_tokens_choices_counts(seed):
    rows = np.random.default_rng(seed).permuted(np.tile([1, 1, 1, 0, 0], (9, 1)), axis=1)
    counted = np.zeros((5, 5))
    for row in rows:
        for i, j in itertools.product(np.flatnonzero(row), repeat=2):
            counted[i, j] += 1
    np.testing.assert_array_equal(metrics.coactivation_counts(rows), counted)


def test_top_1_meets_nobody_and_a_dead_expert_is_nan():
    assert math.isnan(metrics.coactivation_chance(4, 1))
    rows = np.array([[1, 0, 0], [0, 1, 0]])
    together = metrics.coactivation_counts(rows)
    matrix = metrics.coactivation_matrix(together, rows.sum(axis=0))
    assert np.isnan(matrix[2]).all()
    assert np.nanmax(matrix) == 0


def test_coactivation_refuses_what_is_not_square():
    with pytest.raises(ValueError, match="must be square"):
        metrics.coactivation_jaccard(np.ones((2, 3)))


FIRST, SECOND = [0, 0, 1, 1], [0, 0, 1, 0]
PATHS = np.stack([FIRST, SECOND], axis=1)


def test_transition_of_the_worked_example():
    np.testing.assert_array_equal(metrics.transition_matrix(FIRST, SECOND), [[1, 0], [0.5, 0.5]])
    assert metrics.ami_score(FIRST, SECOND) == pytest.approx(0, abs=1e-9)
    assert metrics.next_expert_accuracy(FIRST, SECOND) == 0.75


def test_an_expert_that_nothing_passed_is_a_nan_row():
    matrix = metrics.transition_matrix(FIRST, SECOND, experts=(3, 2))
    assert np.isnan(matrix[2]).all()


def test_paths_of_the_worked_example():
    assert metrics.path_entropy(PATHS) / np.log(2) == pytest.approx(1.5)
    assert np.exp(metrics.path_entropy(PATHS)) == pytest.approx(2.8284271, abs=1e-6)
    numbers = metrics.path_numbers(PATHS)
    assert len(np.unique(numbers)) == 3
    agreement = metrics.label_agreement([0, 0, 1, 1], numbers)
    assert agreement.nmi == pytest.approx(0.8)
    assert agreement.ami == pytest.approx(0.5714286, abs=1e-6)
    assert agreement.homogeneity == pytest.approx(1)
    assert agreement.completeness == pytest.approx(2 / 3)
    assert metrics.path_coverage(PATHS, 1) == 0.5


def test_singleton_paths_tell_nothing_once_adjusted():
    agreement = metrics.label_agreement([0, 0, 1, 1], [0, 1, 2, 3])
    assert agreement.nmi == pytest.approx(2 / 3)
    assert agreement.ami == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("experts", "k", "layers", "degree"), [(8, 1, 2, 64), (4, 1, 3, 64), (8, 2, 1, 28)]
)
def test_nominal_degree(experts, k, layers, degree):
    assert math.exp(metrics.nominal_degree_log(experts, k, layers)) == pytest.approx(degree)


def test_effective_degree():
    degree = metrics.routing_degree(PATHS, experts=2)
    assert math.exp(degree.nominal_log) == pytest.approx(4)
    assert degree.utilisation == pytest.approx(0.75)
    assert math.isnan(metrics.routing_degree(PATHS, experts=1).utilisation)


def test_rarefied_paths_grow_with_the_images_to_the_whole():
    paths = np.random.default_rng(0).integers(0, 3, (60, 2))
    few, whole = metrics.rarefied_paths(paths, 10), metrics.rarefied_paths(paths, 60, draws=2)
    assert few < whole
    assert whole == pytest.approx(np.exp(metrics.path_entropy(paths)))
    with pytest.raises(ValueError, match="size must be from 1 to 60"):
        metrics.rarefied_paths(paths, 61)


def test_saturation_of_the_fixture():
    now = [[0, 1], [0, 1], [0, 2], [2, 3]]
    before = [[0, 1], [0, 2], [0, 2], [1, 3]]
    found = metrics.router_saturation(now, before, experts=4)
    assert found == pytest.approx((0.75, 0.5, 0.5, 2 / 3))


def test_weighted_overlap_of_soft_routing_where_a_set_overlap_would_be_1():
    assert metrics.weighted_jaccard([0.6, 0.4, 0], [0.6, 0, 0.4]) == pytest.approx(
        0.4285714, abs=1e-6
    )
    soft = np.array([0.6, 0.3, 0.1]), np.array([0.1, 0.3, 0.6])
    assert ((soft[0] > 0) == (soft[1] > 0)).all()
    assert metrics.weighted_jaccard(*soft) < 1


def test_matched_agreement_forgets_the_names_of_experts():
    a, b = [0, 0, 1, 1], [1, 1, 0, 0]
    assert np.mean(np.equal(a, b)) == 0
    assert metrics.matched_agreement(a, b) == 1


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_transitions_and_path_agreement_agree_with_loops_and_scikit_learn(seed):
    generator = np.random.default_rng(seed)
    first, second = generator.integers(0, 3, 20), generator.integers(0, 4, 20)
    matrix = metrics.transition_matrix(first, second, experts=(3, 4))
    for i in range(3):
        after = second[first == i]
        for j in range(4):
            if len(after):
                assert matrix[i, j] == pytest.approx((after == j).mean())
    numbers = metrics.path_numbers(np.stack([first, second], axis=1))
    labels = generator.integers(0, 2, 20)
    if len(np.unique(labels)) == 2 and len(np.unique(numbers)) > 1:
        found = metrics.label_agreement(labels, numbers)
        assert found.ami == pytest.approx(adjusted_mutual_info_score(labels, numbers), abs=1e-9)
        expected = homogeneity_completeness_v_measure(labels, numbers)
        assert (found.homogeneity, found.completeness, found.v_measure) == pytest.approx(expected)


def test_coherence_of_the_worked_example():
    found = metrics.spatial_coherence([[[0, 0], [1, 1]]])
    assert found.agreement.tolist() == [0.5]
    assert found.chance[0] == pytest.approx(1 / 3)
    assert found.adjusted[0] == pytest.approx(0.25)


def test_an_image_with_one_expert_agrees_always_and_is_not_adjusted():
    found = metrics.spatial_coherence([[[1, 1], [1, 1]]])
    assert (found.agreement[0], found.chance[0]) == (1, 1)
    assert np.isnan(found.adjusted[0])


@pytest.mark.parametrize("patches", [[0, 0, 1, 1, 2, 2], [0, 0, 0, 0, 1, 2], [0, 1, 2, 3, 4, 5]])
def test_chance_of_coherence_is_the_mean_over_all_shuffles(patches):
    maps = np.array([np.reshape(order, (2, 3)) for order in itertools.permutations(patches)])
    found = metrics.spatial_coherence(maps)
    assert found.agreement.mean() == pytest.approx(found.chance[0])


def test_coherence_needs_a_grid():
    with pytest.raises(ValueError, match="must have 3 axes"):
        metrics.spatial_coherence([0, 1])
