"""T1–T9 on the catalogue's Soft MoE fixture FX-S, and by brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy

from routelab import metrics

LOGITS = np.log([[6.0, 1], [2, 1], [1, 2], [1, 4]])
DISPATCH = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=0)
COMBINE = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
D, K = DISPATCH[None], COMBINE[None]
SEEDS = st.integers(0, 2**32 - 1)


def random_dispatch(seed, images=2, tokens=6, slots=4):
    return (
        np.random.default_rng(seed).dirichlet(np.full(tokens, 0.5), (images, slots)).swapaxes(1, 2)
    )


def test_effective_tokens():
    np.testing.assert_allclose(metrics.effective_tokens(D)[0], [2.9710041, 3.3635857], atol=1e-6)
    np.testing.assert_allclose(
        metrics.effective_tokens(D, order=2)[0], [2.3809524, 2.9090909], atol=1e-6
    )
    np.testing.assert_allclose(
        metrics.effective_tokens(D)[0] / 4, [0.7427510, 0.8408964], atol=1e-6
    )


def test_mass_curves_and_the_tokens_they_need():
    expected = {0.5: [1, 1], 0.8: [2, 3], 0.9: [3, 4], 0.95: [4, 4]}
    for share, tokens in expected.items():
        assert metrics.entries_for_mass(D[0].T, share).tolist() == tokens
        assert metrics.entries_for_mass(D[0].T.astype(np.float32), share).tolist() == tokens
    np.testing.assert_allclose(metrics.mass_curve_area(D[0].T), [0.825, 0.78125])
    assert metrics.entries_for_mass(K[0], 0.8).tolist() == [1, 2, 2, 1]


def test_token_totals():
    np.testing.assert_allclose(
        metrics.token_totals(D, normalized=False)[0], [0.725, 0.325, 0.35, 0.6]
    )
    totals = metrics.token_totals(D)[0]
    np.testing.assert_allclose(totals, [1.45, 0.65, 0.7, 1.2])
    assert (totals < 0.75).mean() == 0.5


def test_load_is_flat_on_dispatch_by_construction_and_read_from_combine():
    np.testing.assert_allclose(D.sum(axis=(0, 1)), [1, 1])
    share = metrics.combine_share(K)
    np.testing.assert_allclose(share, [0.5142857, 0.4857143], atol=1e-6)
    assert share.max() / share.min() == pytest.approx(1.0588235, abs=1e-6)
    assert metrics.max_violation(share) == pytest.approx(0.0285714, abs=1e-6)
    assert metrics.cv_squared(share) == pytest.approx(0.0008163, abs=1e-6)


def test_slot_redundancy():
    assert metrics.slot_redundancy(D, [0, 1]).between == pytest.approx([0.4605662], abs=1e-6)
    assert metrics.slot_divergence(D[0])[0, 1] == pytest.approx(0.2573374, abs=1e-6)
    cosines = metrics.cosine_matrix(K[0])
    assert cosines[np.triu_indices(4, 1)].mean() == pytest.approx(0.7282759, abs=1e-6)
    vectors = [[1, 0], [1, 0], [0, 1], [1, 1]]
    within, between = metrics.slot_parameter_redundancy(vectors, [0, 0, 1, 1])
    assert within == pytest.approx(0.8535534, abs=1e-6)
    assert between == pytest.approx(0.3535534, abs=1e-6)


def test_one_slot_an_expert_has_no_pair_within_and_one_expert_none_between():
    assert np.isnan(metrics.slot_redundancy(D, [0, 1]).within).all()
    assert np.isnan(metrics.slot_redundancy(D, [0, 0]).between).all()


def test_a_zero_slot_is_left_out_of_the_means():
    columns = D.copy()
    columns[..., 1] = 0
    assert np.isnan(metrics.slot_redundancy(columns, [0, 1]).between).all()


def test_token_side():
    experts = metrics.token_effective_experts(K)[0]
    np.testing.assert_allclose(experts, [1.5069931, 1.8898816, 1.8898816, 1.6493849], atol=1e-6)
    assert experts.mean() == pytest.approx(1.7340353, abs=1e-6)
    assert metrics.hardness(K).largest == pytest.approx(0.7476190, abs=1e-6)
    bits = metrics.gate_entropies(K).information / np.log(2)
    assert bits == pytest.approx(0.2118629, abs=1e-6)


def test_divergence_from_uniform():
    np.testing.assert_allclose(metrics.uniform_divergence(D)[0], [0.2973944, 0.1732868], atol=1e-6)


def test_mixing():
    matrix = metrics.mixing_matrix(D, K)[0]
    np.testing.assert_allclose(matrix.sum(axis=1), 1)
    np.testing.assert_allclose(matrix.diagonal(), [0.5321429, 0.175, 0.2, 0.42], atol=1e-6)
    field = np.exp(metrics.shannon_entropy(matrix))
    np.testing.assert_allclose(field, [3.3121466, 3.6330938, 3.7873006, 3.6907225], atol=1e-6)
    assert np.linalg.matrix_rank(matrix) == 2


def test_contribution():
    share = metrics.contribution_share([[1.0, 0.0], [1.0, 1.0]])
    np.testing.assert_allclose(share.projection, [0.4, 0.6])
    np.testing.assert_allclose(share.norm, [0.4142136, 0.5857864], atol=1e-6)


def test_contributions_that_cancel_keep_their_sign_and_nothing_is_nan():
    share = metrics.contribution_share([[3.0, 0.0], [-1.0, 0.0]])
    np.testing.assert_allclose(share.projection, [1.5, -0.5])
    assert np.isnan(metrics.contribution_share(np.zeros((2, 3))).norm).all()
    assert metrics.branch_share([3.0, 4.0], [0.0, 5.0]) == pytest.approx(0.5)


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_concentration_agrees_with_scipy_and_loops(seed):
    dispatch = random_dispatch(seed)
    for b in range(2):
        for s in range(4):
            column = dispatch[b, :, s]
            assert metrics.effective_tokens(dispatch)[b, s] == pytest.approx(
                np.exp(entropy(column))
            )
            assert metrics.uniform_divergence(dispatch)[b, s] == pytest.approx(
                entropy(column, np.full(6, 1 / 6)), abs=1e-9
            )
            held, needed = 0.0, 0
            for weight in sorted(column, reverse=True):
                held, needed = held + weight, needed + 1
                if held >= 0.7:
                    break
            assert metrics.entries_for_mass(column, 0.7) == needed
    pair = metrics.slot_divergence(dispatch[0])[0, 1]
    expected = jensenshannon(dispatch[0, :, 0], dispatch[0, :, 1], base=2) ** 2
    assert pair == pytest.approx(expected, abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_redundancy_agrees_with_loops_over_pairs(seed):
    dispatch, owner = random_dispatch(seed), [0, 0, 1, 1]
    within, between = metrics.slot_redundancy(dispatch, owner, centred=True)
    for b in range(2):
        pairs = {True: [], False: []}
        for i in range(4):
            for j in range(i):
                value = np.corrcoef(dispatch[b, :, i], dispatch[b, :, j])[0, 1]
                pairs[owner[i] == owner[j]].append(value)
        assert within[b] == pytest.approx(np.mean(pairs[True]))
        assert between[b] == pytest.approx(np.mean(pairs[False]))


def test_uniform_dispatch_reads_every_token_and_its_curve_is_straight():
    uniform = np.full((1, 5, 2), 0.2)
    np.testing.assert_allclose(metrics.effective_tokens(uniform), 5)
    np.testing.assert_allclose(metrics.cumulative_mass(uniform[0].T)[0], np.arange(1, 6) / 5)
    np.testing.assert_allclose(metrics.uniform_divergence(uniform), 0, atol=1e-12)


def test_sums_over_slots_come_before_entropy_and_argmax():
    row = np.array([0.1, 0.2, 0.3, 0.4])
    mass = metrics.expert_mass(row, [0, 0, 1, 1])
    assert metrics.shannon_entropy(row) == pytest.approx(1.2798542, abs=1e-6)
    assert metrics.shannon_entropy(mass) == pytest.approx(0.6108643, abs=1e-6)


def test_bad_weights_are_refused_by_name():
    with pytest.raises(ValueError, match="dispatch holds NaN"):
        metrics.effective_tokens(np.full((1, 2, 2), np.nan))
    with pytest.raises(ValueError, match="order is 1 or 2"):
        metrics.effective_tokens(D, order=3)
