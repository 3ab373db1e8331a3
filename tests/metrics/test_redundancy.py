import numpy as np
import pytest
from hypothesis import given, settings
from scipy.spatial.distance import jensenshannon

from routelab import metrics
from tests.metrics.catalogue import COMBINE, DISPATCH, seeds

VECTORS = [[1, 0], [1, 0], [0, 1], [1, 1]]


def random_dispatch(seed, images=2, tokens=6, slots=4):
    generator = np.random.default_rng(seed)
    return generator.dirichlet(np.full(tokens, 0.5), (images, slots)).swapaxes(1, 2)


def test_worked_examples_of_cosine_divergence_and_gap():
    assert metrics.slot_redundancy(DISPATCH[None], [0, 1]).between == pytest.approx(
        [0.4605662], abs=1e-6
    )
    divergence = metrics.slot_divergence_redundancy(DISPATCH[None], [0, 1])
    assert divergence.between == pytest.approx([0.2573374], abs=1e-6)
    assert np.isnan(divergence.within).all()
    cosines = metrics.cosine_matrix(COMBINE)[np.triu_indices(4, 1)]
    assert cosines.mean() == pytest.approx(0.7282759, abs=1e-6)
    found = metrics.slot_parameter_redundancy(VECTORS, [0, 0, 1, 1])
    assert found.gap == pytest.approx(0.5, abs=1e-6)


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_divergence_within_and_between_agrees_with_scipy_over_pairs(seed):
    dispatch, owner = random_dispatch(seed), [0, 1, 0, 1]
    found = metrics.slot_divergence_redundancy(dispatch, owner)
    for b in range(2):
        pairs = {True: [], False: []}
        for i in range(4):
            for j in range(i):
                value = jensenshannon(dispatch[b, :, i], dispatch[b, :, j], base=2) ** 2
                pairs[owner[i] == owner[j]].append(value)
        assert found.within[b] == pytest.approx(np.mean(pairs[True]), abs=1e-9)
        assert found.between[b] == pytest.approx(np.mean(pairs[False]), abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_an_owner_goes_with_its_slot_whatever_the_order(seed):
    dispatch, owner = random_dispatch(seed, slots=5), np.array([0, 0, 1, 1, 2])
    order = np.random.default_rng(seed).permutation(5)
    for measure in (metrics.slot_redundancy, metrics.slot_divergence_redundancy):
        moved = measure(dispatch[..., order], owner[order])
        for part, expected in zip(moved, measure(dispatch, owner), strict=True):
            np.testing.assert_allclose(part, expected)


def test_uniform_and_empty_slots_have_no_direction_and_are_counted():
    dispatch = random_dispatch(0, images=1, tokens=7, slots=3)
    dispatch[0, :, 1], dispatch[0, :, 2] = 1 / 7, 0
    columns = dispatch.transpose(0, 2, 1)
    assert metrics.zero_vectors(columns).tolist() == [[False, False, True]]
    assert metrics.zero_vectors(columns, centred=True).tolist() == [[False, True, True]]
    assert np.isnan(metrics.slot_redundancy(dispatch, [0, 1, 2], centred=True).between).all()
    own = metrics.cosine_matrix(columns[0, 0] * np.ones((2, 1)))[0, 1]
    assert own == pytest.approx(1)
    plain = metrics.slot_redundancy(dispatch, [0, 1, 2]).between[0]
    assert plain == pytest.approx(metrics.cosine_matrix(columns[0])[0, 1])
    matrix = metrics.slot_divergence(dispatch[0])
    assert np.isnan(matrix[2]).all()
    assert np.isnan(matrix[:, 2]).all()
    assert (matrix[0, 0], matrix[1, 1]) == (0, 0)
    assert matrix[0, 1] == matrix[1, 0]


def test_no_image_and_slots_of_one_expert():
    empty = metrics.slot_divergence_redundancy(np.zeros((0, 4, 2)), [0, 1])
    assert empty.within.shape == empty.between.shape == (0,)
    assert np.isnan(metrics.slot_divergence_redundancy(DISPATCH[None], [0, 0]).between).all()


def test_wrong_owners_are_refused():
    for measure in (metrics.slot_redundancy, metrics.slot_divergence_redundancy):
        with pytest.raises(ValueError, match="there are 2 slots and expert_of_slot has 3"):
            measure(DISPATCH[None], [0, 1, 1])
    with pytest.raises(ValueError, match="parameters holds NaN"):
        metrics.slot_parameter_redundancy([[np.nan, 1.0]], [0])
    with pytest.raises(ValueError, match="vectors holds NaN"):
        metrics.zero_vectors([[np.inf, 1.0]])
