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


def test_weights_are_scaled_over_the_tokens_that_are_given():
    without_first = D[:, 1:]
    scaled = without_first / without_first.sum(axis=1, keepdims=True)
    for order in (1, 2):
        np.testing.assert_allclose(
            metrics.effective_tokens(without_first, order=order),
            metrics.effective_tokens(scaled, order=order),
        )
    np.testing.assert_allclose(
        metrics.uniform_divergence(without_first), metrics.uniform_divergence(scaled)
    )
    columns = without_first[0].T
    np.testing.assert_allclose(metrics.cumulative_mass(columns)[:, -1], 1)
    assert metrics.entries_for_mass(columns, 1).tolist() == [3, 3]


def test_a_slot_and_a_token_without_weight_are_nan_and_the_others_stay():
    weights = D.copy()
    weights[..., 1] = 0
    for values in (
        metrics.effective_tokens(weights),
        metrics.effective_tokens(weights, order=2),
        metrics.uniform_divergence(weights),
        metrics.mass_curve_area(weights.transpose(0, 2, 1)),
    ):
        assert np.isnan(values[0]).tolist() == [False, True]
    assert metrics.entries_for_mass(weights[0].T, 0.5).tolist() == [1, 0]
    dropped = np.array([[[0.0, 0.0], [0.4, 0.0]]])
    assert metrics.token_effective_experts(dropped)[0, 1] == 1
    assert np.isnan(metrics.token_effective_experts(dropped)[0, 0])


def test_one_image_of_one_token_one_expert_and_one_slot():
    one = np.ones((1, 1, 1))
    assert metrics.effective_tokens(one).tolist() == [[1]]
    assert metrics.uniform_divergence(one).tolist() == [[0]]
    assert metrics.token_totals(one).tolist() == [[1]]
    assert metrics.token_effective_experts(one).tolist() == [[1]]
    assert metrics.mixing_matrix(one, one).tolist() == [[[1]]]
    assert metrics.combine_share(one).tolist() == [1]


def test_images_are_apart_so_that_batches_can_be_streamed():
    dispatch = random_dispatch(3, images=5)
    combine = np.random.default_rng(4).dirichlet(np.ones(4), (5, 6))
    for measure in (
        metrics.effective_tokens,
        metrics.token_totals,
        metrics.uniform_divergence,
        lambda part: metrics.slot_redundancy(part, [0, 0, 1, 1]).within,
        lambda part: metrics.slot_divergence_redundancy(part, [0, 0, 1, 1]).between,
    ):
        parts = np.concatenate([measure(dispatch[:2]), measure(dispatch[2:])])
        np.testing.assert_allclose(measure(dispatch), parts)
    whole = metrics.mixing_matrix(dispatch, combine)
    np.testing.assert_allclose(whole[3], metrics.mixing_matrix(dispatch[3:4], combine[3:4])[0])


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_mixing_contribution_and_totals_agree_with_loops(seed):
    generator = np.random.default_rng(seed)
    dispatch = random_dispatch(seed)
    combine = generator.dirichlet(np.ones(4), (2, 6))
    matrix = metrics.mixing_matrix(dispatch, combine)
    totals = metrics.token_totals(dispatch)
    for b, t in np.ndindex(2, 6):
        assert totals[b, t] == pytest.approx(sum(dispatch[b, t]) * 6 / 4)
        for u in range(6):
            fed = sum(combine[b, t, s] * dispatch[b, u, s] for s in range(4))
            assert matrix[b, t, u] == pytest.approx(fed)
    np.testing.assert_allclose(matrix.sum(axis=2), 1)
    terms = generator.normal(size=(5, 3, 4))
    share = metrics.contribution_share(terms)
    for t, e in np.ndindex(5, 3):
        norms = [np.linalg.norm(term) for term in terms[t]]
        total = terms[t].sum(axis=0)
        assert share.norm[t, e] == pytest.approx(norms[e] / sum(norms))
        assert share.projection[t, e] == pytest.approx(terms[t, e] @ total / (total @ total))
    np.testing.assert_allclose(share.projection.sum(axis=-1), 1)


def test_terms_that_cancel_up_to_rounding_have_no_projection():
    share = metrics.contribution_share([[0.1, 0.0], [0.2, 0.0], [-0.3, 0.0]])
    assert np.isnan(share.projection).all()
    np.testing.assert_allclose(share.norm, [1 / 6, 1 / 3, 1 / 2])


def test_wrong_shapes_and_shares_are_refused():
    with pytest.raises(ValueError, match="differ in shape"):
        metrics.mixing_matrix(D, np.ones((1, 4, 3)) / 3)
    with pytest.raises(ValueError, match="outputs must have axes"):
        metrics.contribution_share([1.0, 2.0])
    with pytest.raises(ValueError, match="differ in tokens"):
        metrics.branch_share(np.ones((2, 3)), np.ones((3, 3)))
    for share in (0, 1.1):
        with pytest.raises(ValueError, match="share must be above 0 and at most 1"):
            metrics.entries_for_mass([0.5, 0.5], share)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -1.0])
def test_every_measure_refuses_weights_that_are_none_by_name(wrong):
    broken = np.full((1, 2, 2), wrong)
    for measure in (
        metrics.effective_tokens,
        metrics.token_totals,
        metrics.uniform_divergence,
        lambda weights: metrics.mixing_matrix(weights, K),
        lambda weights: metrics.slot_divergence_redundancy(weights, [0, 1]),
    ):
        with pytest.raises(ValueError, match="dispatch holds"):
            measure(broken)
    for measure in (metrics.combine_share, metrics.token_effective_experts):
        with pytest.raises(ValueError, match="mass holds"):
            measure(broken)
    for measure in (metrics.cumulative_mass, metrics.mass_curve_area):
        with pytest.raises(ValueError, match="weights holds"):
            measure(broken)
