import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy

from routelab import metrics

FX_B = np.array([[2.0, 0.0], [1.0, 1.0]])
TABLES = arrays(np.int64, (4, 3), elements=st.integers(0, 9)).filter(
    lambda t: (t.sum(axis=0) > 0).all() and (t.sum(axis=1) > 0).all()
)


def test_worked_example_of_the_class_mix_of_an_expert():
    np.testing.assert_allclose(metrics.expert_class_share(FX_B), [[2 / 3, 0], [1 / 3, 1]])
    np.testing.assert_allclose(metrics.expert_purity(FX_B), [2 / 3, 1])
    assert metrics.overall_purity(FX_B) == 0.75
    bits = metrics.expert_class_entropy(FX_B, normalized=False) / np.log(2)
    np.testing.assert_allclose(bits, [0.9182958, 0], atol=1e-6)


def test_worked_example_of_divergence_and_of_its_sum():
    np.testing.assert_allclose(metrics.expert_divergence(FX_B), [0.0207208, 0.3112781], atol=1e-6)
    information = metrics.expert_information(FX_B)
    np.testing.assert_allclose(information, [0.0817042, 1], atol=1e-6)
    load = FX_B.sum(axis=0) / FX_B.sum()
    assert load @ information == pytest.approx(0.3112781, abs=1e-6)


def test_worked_example_of_lift():
    np.testing.assert_allclose(metrics.lift(FX_B), [[4 / 3, 0], [2 / 3, 2]])
    np.testing.assert_allclose(
        metrics.log_lift(FX_B),
        [[0.2515388, -0.8479969], [-0.4854268, 0.7369656]],
        atol=1e-6,
    )
    information = metrics.pointwise_information(FX_B)
    assert np.isnan(information[0, 1])
    assert information[1, 1] == 1


def test_shrunken_lift_by_hand():
    # expected [[1.5, .5], [1.5, .5]]: log2 of 2.5/2, .5/1, 1.5/2, 1.5/1
    expected = np.log2([[2.5 / 2, 0.5], [0.75, 1.5]])
    np.testing.assert_allclose(metrics.shrunken_lift(FX_B), expected)


@given(st.integers(2, 60), st.floats(1e-6, 5), st.integers(0, 99))
def test_shrunken_lift_is_zero_for_an_expert_that_serves_all_alike(classes, little, seed):
    size = np.random.default_rng(seed).integers(1, 9, classes).astype(float)
    table = np.outer(size, [little, 1.0, 2.0])
    np.testing.assert_allclose(metrics.shrunken_lift(table), 0, atol=1e-12)
    if classes > 20 and little < 0.01:  # the smoothing that gives every cell of a class its own α
        assert metrics.log_lift(table)[:, 0].min() > 1


def test_shrunken_lift_nears_the_logarithm_of_the_lift():
    table = np.array([[20000.0, 1000.0], [10000.0, 10000.0]])
    np.testing.assert_allclose(
        metrics.shrunken_lift(table), metrics.pointwise_information(table), atol=5e-3
    )


def test_worked_example_of_selectivity():
    means = np.array([[0.8, 0.2], [0.25, 0.75]])
    np.testing.assert_allclose(metrics.selectivity(means), [0.5238095, 0.5789474], atol=1e-6)
    other = metrics.selectivity(means, preferred=[1, 0])
    np.testing.assert_allclose(other, [-0.5238095, -0.5789474], atol=1e-6)


def test_worked_example_of_relevance():
    gates = np.array([[0.6, 0.4, 0], [0.7, 0, 0.3], [0.5, 0.5, 0]])
    np.testing.assert_allclose(
        metrics.expert_relevance(gates.mean(axis=0), share=0.5).score, [0.6, 0.3, 0.1]
    )
    np.testing.assert_allclose(
        metrics.expert_relevance((gates > 0).sum(axis=0), share=0.5).score,
        [0.5, 1 / 3, 1 / 6],
    )
    kept = metrics.expert_relevance([0.5, 0.3, 0.2], share=0.6).kept
    assert kept.tolist() == [True, True, False]


def test_ties_at_the_cut_are_all_kept_and_said():
    found = metrics.expert_relevance([0.4, 0.2, 0.2, 0.2], share=0.5)
    assert found.kept.all()
    assert found.tied
    rounded = metrics.expert_relevance([0.4, 0.1 + 0.2, 0.3], share=0.6)
    assert rounded.kept.all(), "rounding does not break a tie"
    assert rounded.tied
    assert not metrics.expert_relevance([0.5, 0.3, 0.2], share=0.6).tied
    assert metrics.expert_relevance([0.6, 0.2, 0.1, 0.1], share=0.9).kept.sum() == 4
    assert metrics.expert_relevance([0.6, 0.2, 0.1, 0.1], share=0.8).kept.sum() == 2


def test_scores_are_shares_over_the_experts_of_a_layer_never_over_layers():
    layers = np.array([[3.0, 1.0], [1.0, 1.0]])
    own = [metrics.expert_relevance(layer, share=1).score for layer in layers]
    assert np.sum(own, axis=1) == pytest.approx(1)
    assert own[0] == pytest.approx([0.75, 0.25])


def test_no_score_keeps_nobody():
    found = metrics.expert_relevance([0, 0], share=0.5)
    assert np.isnan(found.score).all()
    assert not found.kept.any()
    assert not found.tied


@settings(max_examples=25, deadline=None)
@given(TABLES)
def test_divergences_agree_with_scipy(table):
    share = table / table.sum(axis=0)
    mix = table.sum(axis=1) / table.sum()
    for e, (divergence, information, spread) in enumerate(
        zip(
            metrics.expert_divergence(table),
            metrics.expert_information(table),
            metrics.expert_class_entropy(table, normalized=False),
            strict=True,
        )
    ):
        assert divergence == pytest.approx(jensenshannon(share[:, e], mix, base=2) ** 2, abs=1e-9)
        assert information == pytest.approx(entropy(share[:, e], mix, base=2), abs=1e-9)
        assert spread == pytest.approx(entropy(share[:, e]), abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(TABLES, st.permutations(range(3)))
def test_relabelling_experts_only_reorders(table, order):
    for measure in (metrics.expert_purity, metrics.expert_divergence):
        np.testing.assert_allclose(measure(table[:, order]), measure(table)[list(order)])
    np.testing.assert_allclose(metrics.lift(table[:, order]), metrics.lift(table)[:, order])


def test_a_dead_expert_and_an_empty_class_are_nan_and_the_others_stay():
    table = np.array([[2.0, 0, 1], [1, 0, 1], [0, 0, 0]])
    for measure in (
        metrics.expert_purity,
        metrics.expert_divergence,
        metrics.expert_class_entropy,
        metrics.expert_information,
    ):
        found = measure(table)
        assert np.isnan(found[1])
        assert np.isfinite(found[[0, 2]]).all()
    lift = metrics.lift(table)
    assert np.isnan(lift[:, 1]).all()
    assert np.isnan(lift[2]).all()
    assert np.isfinite(metrics.log_lift(table)).all()
    np.testing.assert_array_equal(np.isnan(metrics.shrunken_lift(table)), np.isnan(lift))


def test_one_class_has_no_selectivity_and_no_normalised_entropy():
    assert np.isnan(metrics.selectivity([[0.5, 0.5]])).all()
    assert np.isnan(metrics.expert_class_entropy([[3.0, 1.0]])).all()
    assert metrics.expert_purity([[3.0, 1.0]]).tolist() == [1, 1]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
def test_bad_tables_are_refused_by_name(bad):
    with pytest.raises(ValueError, match="table holds"):
        metrics.expert_purity([[1.0, bad]])


def test_means_leave_dead_experts_out_and_name_them_and_those_with_few_images():
    table = np.array([[20.0, 0, 1, 10], [0, 0, 3, 10]])
    found = metrics.purity_summary(table)
    assert found.purity == pytest.approx((1 + 0.75 + 0.5) / 3)
    assert found.overall == metrics.overall_purity(table) == pytest.approx(33 / 44)
    assert found.entropy == pytest.approx((0 + 0.8112781 + 1) / 3, abs=1e-6)
    assert found.dead.tolist() == [False, True, False, False]
    assert found.few.tolist() == [False, False, True, False]


def test_a_layer_without_images_has_no_purity():
    found = metrics.purity_summary(np.zeros((2, 2)))
    assert np.isnan(found[:3]).all()
    assert found.dead.all()


@settings(max_examples=25, deadline=None)
@given(TABLES)
def test_shares_purity_lift_and_selectivity_agree_with_loops(table):
    n, classes = table.sum(), len(table)
    for e in range(table.shape[1]):
        column = [count / table[:, e].sum() for count in table[:, e]]
        assert metrics.expert_purity(table)[e] == pytest.approx(max(column))
        top = table[:, e].argmax()
        others = np.mean([table[c, e] for c in range(classes) if c != top])
        index = (table[top, e] - others) / (table[top, e] + others)
        assert metrics.selectivity(table)[e] == pytest.approx(index)
        for c in range(classes):
            expected = table[c, e] * n / (table[c].sum() * table[:, e].sum())
            assert metrics.lift(table)[c, e] == pytest.approx(expected)
            if table[c, e]:
                pmi = metrics.pointwise_information(table)[c, e]
                assert pmi == pytest.approx(np.log2(expected))
    information = metrics.expert_information(table) @ (table.sum(axis=0) / n)
    assert information == pytest.approx(metrics.table_information(table) / np.log(2), abs=1e-9)


def test_a_preferred_class_that_is_not_there_is_refused():
    means = [[0.8, 0.2], [0.25, 0.75]]
    for wrong in ([0], [0, 2], [0, -1]):
        with pytest.raises(ValueError, match="preferred"):
            metrics.selectivity(means, preferred=wrong)


def test_wrong_options_and_tables_without_a_class_are_refused():
    with pytest.raises(ValueError, match="alpha must be above 0"):
        metrics.log_lift(FX_B, alpha=0)
    with pytest.raises(ValueError, match="alpha must be above 0"):
        metrics.shrunken_lift(FX_B, alpha=0)
    with pytest.raises(ValueError, match="share must be above 0 and at most 1"):
        metrics.expert_relevance([1, 1], share=1.5)
    with pytest.raises(ValueError, match="table must have a row for each class"):
        metrics.expert_purity(np.zeros((0, 2)))
