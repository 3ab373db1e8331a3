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
    assert metrics.coactivation_chance(2, 2) == 1
    assert math.isnan(metrics.coactivation_chance(1, 1))
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
    work = rows.sum(axis=0)
    assert np.isnan(metrics.coactivation_matrix(together, work)).all()
    assert np.isnan(metrics.coactivation_lift(together, work, 2)).all()
    assert np.isnan(metrics.coactivation_jaccard(together)).all()
    assert np.isnan(metrics.coactivation_matrix([[3]], [3])).all()
    pair = np.array([[1, 1, 0, 0], [1, 0, 1, 0]])
    matrix = metrics.coactivation_matrix(metrics.coactivation_counts(pair), pair.sum(axis=0))
    assert np.isnan(matrix[3]).all()
    assert matrix[0, 1] == 0.5
    assert matrix[1, 2] == 0


def test_all_28_pairs_of_a_top_8_token_count_not_7():
    row = np.array([[1] * 8 + [0] * 8])
    together = metrics.coactivation_counts(row)
    assert np.triu(together, 1).sum() == 28


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_soft_coactivation_agrees_with_a_loop_and_follows_the_names_of_experts(seed):
    generator = np.random.default_rng(seed)
    mass = generator.dirichlet(np.ones(4), (3, 5))
    order = generator.permutation(4)
    work = mass.sum(axis=(0, 1))
    together = metrics.coactivation_counts(mass)
    matrix = metrics.coactivation_matrix(together, work)
    lift = metrics.coactivation_lift(together, work, 15)
    for i, j in itertools.permutations(range(4), 2):
        met = sum(token[i] * token[j] for image in mass for token in image)
        assert matrix[i, j] == pytest.approx(met / work[i])
        assert lift[i, j] == pytest.approx(met * 15 / (work[i] * work[j]))
    renamed = metrics.coactivation_matrix(
        metrics.coactivation_counts(mass[..., order]), work[order]
    )
    np.testing.assert_allclose(renamed, matrix[np.ix_(order, order)])


def test_splitting_a_slot_in_two_leaves_coactivation():
    mass = np.array([[0.6, 0.4], [0.3, 0.7]])
    halved = np.column_stack([mass[:, :1] / 2, mass[:, :1] / 2, mass[:, 1:]])
    again = metrics.expert_mass(halved, [0, 0, 1])
    np.testing.assert_allclose(
        metrics.coactivation_counts(again), metrics.coactivation_counts(mass)
    )


def test_coactivation_refuses_what_is_not_square():
    with pytest.raises(ValueError, match="must be square"):
        metrics.coactivation_jaccard(np.ones((2, 3)))
    with pytest.raises(ValueError, match="work has 3 experts and together 2"):
        metrics.coactivation_matrix(np.ones((2, 2)), [1, 1, 1])
    for wrong in (np.nan, np.inf, -1):
        with pytest.raises(ValueError, match="selected holds"):
            metrics.coactivation_counts([[1, wrong]])


FIRST, SECOND = [0, 0, 1, 1], [0, 0, 1, 0]
PATHS = np.stack([FIRST, SECOND], axis=1)


def test_transition_of_the_worked_example():
    np.testing.assert_array_equal(metrics.transition_matrix(FIRST, SECOND), [[1, 0], [0.5, 0.5]])
    assert metrics.ami_score(FIRST, SECOND) == pytest.approx(0, abs=1e-9)
    assert metrics.next_expert_accuracy(FIRST, SECOND) == 0.75
    assert metrics.next_expert_accuracy([0, 0, 2, 2], SECOND) == 0.75, "an idle expert adds none"


def test_an_expert_that_nothing_passed_is_a_nan_row():
    matrix = metrics.transition_matrix(FIRST, SECOND, experts=(3, 2))
    assert np.isnan(matrix[2]).all()


def test_all_pairs_of_top_k_choices_count_not_those_of_equal_rank():
    matrix = metrics.transition_matrix([[0, 1]], [[0, 1]])
    np.testing.assert_array_equal(matrix, [[0.5, 0.5], [0.5, 0.5]])


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_top_k_transitions_agree_with_a_loop_that_skips_dropped_choices(seed):
    generator = np.random.default_rng(seed)
    first, second = generator.integers(-1, 3, (12, 2)), generator.integers(-1, 4, (12, 3))
    counts = np.zeros((3, 4))
    for a, b in zip(first, second, strict=True):
        for i, j in itertools.product(a[a >= 0], b[b >= 0]):
            counts[i, j] += 1
    found = metrics.transition_matrix(first, second, experts=(3, 4))
    for i in range(3):
        if counts[i].any():
            np.testing.assert_allclose(found[i], counts[i] / counts[i].sum())
        else:
            assert np.isnan(found[i]).all()
    assert metrics.transition_matrix(first[:, :1], second[:, :1], experts=(3, 4)).shape == (3, 4)


def test_wrong_choices_and_paths_are_refused_by_name():
    with pytest.raises(ValueError, match="first has 1 rows and second has 2"):
        metrics.transition_matrix([[0, 1]], [[0, 1], [0, 1]])
    with pytest.raises(ValueError, match="first must be whole numbers"):
        metrics.transition_matrix([[0, np.nan]], [[0, 1]])
    for measure in (metrics.path_numbers, metrics.path_entropy, metrics.shuffled_path_entropy):
        with pytest.raises(ValueError, match="paths must be whole numbers"):
            measure([[0, np.nan]])
        with pytest.raises(ValueError, match="paths holds negative"):
            measure([[0, -1]])
        with pytest.raises(ValueError, match="paths must have 2 axes"):
            measure([0, 1])
    with pytest.raises(ValueError, match="one array a layer"):
        metrics.top_paths([np.array([0, 1]), np.array([0])])
    for k in (0, 3):
        with pytest.raises(ValueError, match="k must be from 1 to 2"):
            metrics.nominal_degree_log(2, k, 1)


def test_paths_stack_one_column_a_layer():
    found = metrics.top_paths([np.array(FIRST), np.array(SECOND)])
    np.testing.assert_array_equal(found, PATHS)


def test_entropy_of_shuffled_paths_is_that_of_unrelated_layers():
    unrelated = np.array(list(itertools.product(range(2), range(3)))).repeat(40, axis=0)
    follows = np.tile(np.arange(3)[:, None], (80, 2))
    by_chance = metrics.shuffled_path_entropy(follows, permutations=20)
    assert metrics.path_entropy(follows) == pytest.approx(np.log(3))
    assert by_chance == pytest.approx(2 * np.log(3), abs=0.05)
    assert metrics.shuffled_path_entropy(unrelated) == pytest.approx(np.log(6), abs=0.02)
    assert metrics.shuffled_path_entropy(follows, seed=3) == metrics.shuffled_path_entropy(
        follows, seed=3
    )
    assert math.isnan(metrics.shuffled_path_entropy(np.zeros((0, 2))))
    # Wherever the one 1 of the second layer falls, the paths have the counts 2, 1 and 1.
    assert metrics.shuffled_path_entropy(PATHS) == pytest.approx(1.5 * np.log(2))


def test_no_image_has_no_path():
    none = np.zeros((0, 2))
    assert math.isnan(metrics.path_entropy(none))
    assert math.isnan(metrics.path_coverage(none, 1))
    assert math.isnan(metrics.routing_degree(none, experts=2).utilisation)


def test_a_nominal_degree_too_large_for_a_float_is_a_logarithm():
    degree = metrics.nominal_degree_log(128, 8, 1000)
    assert degree == pytest.approx(1000 * math.log(math.comb(128, 8)))
    assert degree > math.log(1.7e308)


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
    assert metrics.rarefied_paths(paths, 1) == 1
    assert whole == pytest.approx(np.exp(metrics.path_entropy(paths)))
    with pytest.raises(ValueError, match="size must be from 1 to 60"):
        metrics.rarefied_paths(paths, 61)


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
    with pytest.raises(ValueError, match="must have 2 axes"):
        metrics.shuffled_agreement([0, 1])


@pytest.mark.parametrize(("wrong", "says"), [(np.nan, "whole numbers"), (-1, "negative")])
def test_maps_with_dropped_or_missing_tokens_are_refused_by_name(wrong, says):
    with pytest.raises(ValueError, match=f"experts .*{says}"):
        metrics.spatial_coherence([[[0, wrong]]])
    with pytest.raises(ValueError, match=f"experts .*{says}"):
        metrics.shuffled_agreement([[0, wrong]])


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.integers(1, 4), st.integers(1, 4))
def test_coherence_agrees_with_a_loop_over_neighbours(seed, height, width):
    maps = np.random.default_rng(seed).integers(0, 3, (3, height, width))
    found = metrics.spatial_coherence(maps)
    for image, agreement, chance in zip(maps, found.agreement, found.chance, strict=True):
        pairs = [
            image[i, j] == image[i + down, j + right]
            for i, j in np.ndindex(height, width)
            for down, right in ((1, 0), (0, 1))
            if i + down < height and j + right < width
        ]
        tokens = list(itertools.permutations(image.ravel(), 2))
        if pairs:
            assert agreement == pytest.approx(np.mean(pairs))
            assert chance == pytest.approx(np.mean([a == b for a, b in tokens]))
        else:
            assert np.isnan(agreement)
            assert np.isnan(chance)


def test_no_image_and_one_patch_have_no_coherence():
    assert metrics.spatial_coherence(np.zeros((0, 2, 2))).adjusted.shape == (0,)
    assert np.isnan(metrics.spatial_coherence([[[0]]])).all()
