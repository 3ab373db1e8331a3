import numpy as np
import pytest
from scipy import stats

from routelab import metrics
from tests.metrics.catalogue import ASSIGNMENTS, GATES, LABELS, bits, one_hot

NAN = float("nan")


def information(name: str) -> metrics.Permutation:
    """Exact test of the information of a hard assignment, in bits."""
    experts = ASSIGNMENTS[name]
    return metrics.permutation_test(
        lambda labels: bits(metrics.table_information(metrics.contingency_table(labels, experts))),
        LABELS,
    )


def test_perfect_routing_of_four_images_is_never_significant():
    found = information("perfect")
    assert found.exact
    assert len(found.null) == 6
    assert (found.observed, found.null_mean, found.p) == pytest.approx((1, 1 / 3, 1 / 3))
    assert found.smallest_p == pytest.approx(1 / 3), "swapping both classes changes nothing"
    assert metrics.adjusted_score(found.observed, found.null_mean) == pytest.approx(1)


def test_partial_routing_is_what_every_labelling_gives():
    found = information("partial")
    assert found.p == 1
    assert found.null_sd == 0
    assert np.isnan(found.z)
    assert found.reason == "no z: every labelling gives the same number"
    assert found.excess == pytest.approx(0, abs=1e-12)
    assert metrics.adjusted_score(found.observed, found.null_mean) == pytest.approx(0, abs=1e-12)


def test_independent_and_collapsed_routing():
    found = information("independent")
    assert metrics.adjusted_score(found.observed, found.null_mean) == pytest.approx(-0.5)
    assert information("collapsed").p == 1


@pytest.mark.parametrize(
    ("name", "mean"),
    [("perfect", 2 / 3), ("partial", 0.75), ("independent", 2 / 3), ("collapsed", 1)],
)
def test_null_of_the_maximum_share(name, mean):
    rows = one_hot(name)
    found = metrics.permutation_test(lambda labels: metrics.max_share(labels, rows).macro, LABELS)
    assert found.null_mean == pytest.approx(mean)


def test_null_of_soft_information_of_the_catalogue():
    found = metrics.permutation_test(
        lambda labels: bits(metrics.information_budget(labels, GATES).of_class), LABELS
    )
    assert found.observed == pytest.approx(0.2315928, abs=1e-6)
    assert found.null_mean == pytest.approx(0.0784034, abs=1e-6)
    assert found.p == pytest.approx(1 / 3)


def test_p_of_draws_counts_the_observed_labelling():
    found = metrics.against_null(3.0, [1.0, 2.0, 3.0, 4.0])
    assert found.p == pytest.approx((1 + 2) / (1 + 4))
    assert found.smallest_p == pytest.approx(1 / 5)
    assert found.excess == pytest.approx(0.5)
    assert found.z == pytest.approx(0.5 / np.std([1, 2, 3, 4]))


def test_rounding_does_not_break_ties():
    assert metrics.against_null(
        0.3, [0.1 + 0.2, 0.3 - 1e-16, 0.2999], exact=True
    ).p == pytest.approx(2 / 3)
    assert metrics.against_null(3e8, [3e8 * (1 - 1e-14), 1.0], exact=True).p == pytest.approx(1 / 2)


def test_exact_p_agrees_with_scipy():
    generator = np.random.default_rng(3)
    values, labels = generator.normal(size=9), np.array([0] * 5 + [1] * 4)
    difference = lambda part: values[part == 1].mean() - values[part == 0].mean()  # noqa: E731
    found = metrics.permutation_test(difference, labels)
    expected = stats.permutation_test(
        (values[labels == 1], values[labels == 0]),
        lambda a, b: a.mean() - b.mean(),
        alternative="greater",
        n_resamples=np.inf,
    )
    assert found.p == pytest.approx(expected.pvalue)
    assert len(found.null) == 126


def test_strata_hold_a_nuisance_still():
    source = np.arange(200) % 2
    labels = source * 2 + np.random.default_rng(0).integers(0, 2, 200)
    statistic = lambda part: metrics.table_information(metrics.contingency_table(part, source))  # noqa: E731
    free = metrics.permutation_test(statistic, labels, permutations=99)
    held = metrics.permutation_test(statistic, labels, permutations=99, strata=source)
    assert free.p == 0.01
    assert held.p == 1


def test_an_undefined_statistic_is_nan_with_a_reason():
    for found in (
        metrics.permutation_test(lambda labels: NAN, LABELS),
        metrics.against_null(1.0, [0.0, NAN]),
        metrics.against_null(1.0, []),
    ):
        assert np.isnan(found.p)
        assert found.reason
    infinite = metrics.against_null(np.inf, [1.0, np.inf, 2.0])
    assert infinite.p == 0.5
    assert np.isnan(infinite.z)
    assert infinite.reason


def test_adjusted_score_has_room():
    assert np.isnan(metrics.adjusted_score(1, 1))
    assert metrics.adjusted_score(0.2, 0.1, largest=0.3) == pytest.approx(0.5)


def test_layers_share_each_shuffle():
    labels = np.arange(24) % 3
    null = metrics.null_draws(
        lambda part: [part[:8].sum(), part[:8].sum()], labels, permutations=20
    ).null
    assert null.shape == (20, 2)
    assert np.array_equal(null[:, 0], null[:, 1])


def test_copies_of_a_layer_cost_no_power_and_new_layers_do():
    generator = np.random.default_rng(0)
    one = generator.normal(size=(999, 1))
    observed = np.quantile(one, 0.97)
    alone = metrics.max_statistic_test([observed], one)[0]
    copies = metrics.max_statistic_test([observed] * 5, np.repeat(one, 5, axis=1))
    apart = metrics.max_statistic_test(
        [observed] * 5, np.hstack([one, generator.normal(size=(999, 4))])
    )
    assert copies == pytest.approx(alone)
    assert alone == pytest.approx(0.03, abs=0.002)
    assert apart[0] == pytest.approx(1 - 0.97**5, abs=0.02)


def test_layers_are_put_on_one_scale():
    null = np.random.default_rng(0).normal(size=(999, 2)) * [1, 100]
    assert metrics.max_statistic_test([4.0, 0.0], null)[0] < 0.01


def test_a_layer_that_never_varies_is_nan_and_leaves_the_others():
    null = np.random.default_rng(0).normal(size=(99, 3))
    null[:, 1] = 1.0
    found = metrics.max_statistic_test([5.0, 1.0, NAN], null)
    assert found[0] == pytest.approx(0.01)
    assert np.isnan(found[1:]).all()
    assert np.isnan(metrics.max_statistic_test([1.0], np.ones((5, 1)))).all()


def test_exact_max_statistic_is_a_share_of_labellings():
    null = np.arange(6.0)[:, None]
    assert metrics.max_statistic_test([4.0], null, exact=True)[0] == pytest.approx(2 / 6)


def test_false_layers_are_rare_over_the_family():
    generator = np.random.default_rng(1)
    draws = generator.normal(size=(400, 100, 6))
    smallest = [np.min(metrics.max_statistic_test(run[0], run[1:])) for run in draws]
    assert np.mean(np.array(smallest) <= 0.05) == pytest.approx(0.05, abs=0.025)


def test_a_null_of_other_layers_is_refused():
    with pytest.raises(ValueError, match="null has shape"):
        metrics.max_statistic_test([1.0, 2.0], np.zeros((5, 3)))


def test_adjusted_agreement_equals_ami_where_the_entropies_are_the_ceiling():
    for name in ("perfect", "partial", "independent"):
        found = information(name)
        table = metrics.contingency_table(LABELS, ASSIGNMENTS[name])
        adjusted = metrics.adjusted_score(
            found.observed, found.null_mean, largest=bits(metrics.mean_margin_entropy(table))
        )
        assert adjusted == pytest.approx(metrics.ami_score(LABELS, ASSIGNMENTS[name]), abs=1e-9)


def test_the_same_seed_gives_the_same_test_and_another_seed_another():
    labels, values = np.arange(40) % 4, np.random.default_rng(0).normal(size=40)
    statistic = lambda part: values[part == 0].mean()  # noqa: E731
    first, again, other = (
        metrics.permutation_test(statistic, labels, permutations=30, seed=seed).null
        for seed in (0, 0, 1)
    )
    assert first.tolist() == again.tolist()
    assert first.tolist() != other.tolist()


def test_one_image_and_one_class_reach_no_evidence():
    for labels in ([0], [0, 0, 0, 0]):
        found = metrics.permutation_test(lambda part: 1.0, labels)
        assert (found.p, found.smallest_p) == (1, 1)
        assert found.exact


def test_a_thousand_null_labellings_give_a_fair_p():
    generator = np.random.default_rng(7)
    values = generator.normal(size=(1000, 40))
    labels = np.arange(40) % 2
    drawn = np.array(list(metrics.shuffles(labels, 199, seed=generator)))
    null = values @ (2 * drawn.T - 1)
    observed = values @ (2 * labels - 1)
    p = np.array(
        [metrics.against_null(*pair).p for pair in zip(observed.tolist(), null, strict=True)]
    )
    assert 0.035 <= (p < 0.05).mean() <= 0.065
    assert p.mean() == pytest.approx(0.5, abs=0.03)


def test_an_undefined_layer_is_never_significant():
    draws = np.arange(12.0).reshape(6, 2)
    for exact in (True, False):
        found = metrics.max_statistic_test([NAN, 1.0], draws, exact=exact)
        assert np.isnan(found[0])
        assert found[1] == 1


def test_no_draw_gives_no_p():
    assert np.isnan(metrics.max_statistic_test([1.0, 2.0], np.zeros((0, 2)))).all()


def test_labels_that_are_not_numbers_are_refused():
    with pytest.raises(ValueError, match="labels must be whole numbers"):
        metrics.permutation_test(lambda part: 0.0, [0, 1, np.nan])
