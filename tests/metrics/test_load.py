import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from routelab import metrics
from tests.metrics.catalogue import COMBINE, DISPATCH, GATES, PROFILES, TOP_TWO_LOAD, bits

loads = arrays(np.float64, st.integers(2, 12), elements=st.floats(0.01, 1e3))


def test_share_of_the_catalogue():
    assert metrics.load_share(TOP_TWO_LOAD) == pytest.approx([0.375, 0.25, 0.25, 0.125])


def test_load_and_importance_differ():
    tokens = GATES.reshape(-1, 2)
    assert np.bincount(tokens.argmax(axis=1)).tolist() == [4, 4]
    assert tokens.sum(axis=0) == pytest.approx([4.2, 3.8])
    assert metrics.cv_squared(tokens.sum(axis=0)) == pytest.approx(0.0025)


@pytest.mark.parametrize(
    ("load", "cv_squared", "largest", "smallest", "gini", "scaled"),
    [
        (TOP_TWO_LOAD, 0.125, 0.5, -0.5, 0.1875, 0.25),
        ([4, 0, 0, 0], 3, 3, -1, 0.75, 1),
        ([4, 4, 0, 0], 1, 1, -1, 0.5, 2 / 3),
        ([1, 1, 1, 1], 0, 0, 0, 0, 0),
    ],
)
def test_imbalance_of_the_catalogue(load, cv_squared, largest, smallest, gini, scaled):
    assert metrics.cv_squared(load) == pytest.approx(cv_squared, abs=1e-12)
    assert metrics.max_violation(load) == pytest.approx(largest)
    assert metrics.min_violation(load) == pytest.approx(smallest)
    assert metrics.gini(load) == pytest.approx(gini)
    assert metrics.gini(load, normalized=True) == pytest.approx(scaled)


def test_entropy_of_the_catalogue():
    entropy = metrics.load_entropy(TOP_TWO_LOAD)
    assert entropy == pytest.approx(1.3208883, abs=1e-6)
    assert bits(entropy) == pytest.approx(1.9056391, abs=1e-6)
    assert metrics.load_entropy(TOP_TWO_LOAD, normalized=True) == pytest.approx(0.9528195, abs=1e-6)
    assert metrics.load_divergence(TOP_TWO_LOAD) == pytest.approx(0.0654060, abs=1e-6)
    assert bits(metrics.load_entropy(COMBINE.sum(axis=0))) == pytest.approx(0.9994111, abs=1e-6)


@pytest.mark.parametrize(
    ("load", "first", "second"),
    [
        (TOP_TWO_LOAD, 3.7467483, 3.5555556),
        ([4, 4, 0, 0], 2, 2),
        (COMBINE.sum(axis=0), 1.9991837, None),
    ],
)
def test_effective_experts_of_the_catalogue(load, first, second):
    assert metrics.effective_experts(load) == pytest.approx(first, abs=1e-6)
    if second is not None:
        assert metrics.effective_experts(load, order=2) == pytest.approx(second, abs=1e-6)


def test_dead_and_cold_experts_of_the_catalogue():
    assert np.flatnonzero(metrics.dead_experts([4, 0])).tolist() == [1]
    assert not metrics.cold_experts(TOP_TWO_LOAD).any()
    assert metrics.cold_experts([97, 2, 1, 0], alpha=0.1).tolist() == [False, True, True, True]


def test_a_wide_even_layer_has_no_cold_expert():
    assert not metrics.cold_experts(np.ones(1182)).any()


def test_a_rare_expert_may_be_unseen_by_chance():
    seen = np.random.default_rng(0).binomial(50, 0.02, 20_000)
    assert metrics.unseen_probability(0.02, tokens=50) == pytest.approx(
        (seen == 0).mean(), abs=0.01
    )


def test_dispatch_is_even_by_construction_and_combine_is_not():
    assert metrics.cv_squared(DISPATCH.sum(axis=0)) == pytest.approx(0, abs=1e-12)
    assert metrics.cv_squared(COMBINE.sum(axis=0)) == pytest.approx(0.0008163, abs=1e-6)
    assert metrics.max_violation(COMBINE.sum(axis=0)) == pytest.approx(0.0285714, abs=1e-6)


@settings(max_examples=25, deadline=None)
@given(loads)
def test_entropies_agree_with_scipy(load):
    share = load / load.sum()
    assert metrics.load_entropy(load) == pytest.approx(stats.entropy(load))
    even = np.full(len(load), 1 / len(load))
    assert metrics.load_divergence(load) == pytest.approx(stats.entropy(share, even), abs=1e-9)
    assert metrics.cv_squared(load) == pytest.approx(stats.variation(load) ** 2, abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(loads)
def test_gini_is_half_the_relative_mean_difference(load):
    differences = np.abs(load[:, None] - load[None, :]).mean()
    assert metrics.gini(load) == pytest.approx(differences / (2 * load.mean()), abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(loads)
def test_hill_numbers_are_ordered(load):
    first, second = metrics.effective_experts(load), metrics.effective_experts(load, order=2)
    assert 1 - 1e-9 <= second <= first + 1e-9 <= len(load) + 2e-9


@settings(max_examples=25, deadline=None)
@given(loads, st.randoms(use_true_random=False))
def test_names_and_units_of_experts_do_not_matter(load, random):
    order = list(range(len(load)))
    random.shuffle(order)
    for measure in (metrics.cv_squared, metrics.gini, metrics.load_entropy, metrics.max_violation):
        assert measure(7 * load[order]) == pytest.approx(measure(load), abs=1e-9)


def test_splitting_a_slot_changes_nothing():
    halved = np.column_stack([COMBINE[:, :1] / 2, COMBINE[:, :1] / 2, COMBINE[:, 1:]])
    mass = metrics.expert_mass(halved, [0, 0, 1])
    assert mass == pytest.approx(COMBINE)
    assert metrics.load_entropy(mass.sum(axis=0)) == pytest.approx(
        metrics.load_entropy(COMBINE.sum(axis=0))
    )


@pytest.mark.parametrize(
    "measure",
    [
        metrics.cv_squared,
        metrics.max_violation,
        metrics.min_violation,
        metrics.load_entropy,
        metrics.effective_experts,
        metrics.gini,
    ],
)
def test_a_load_of_nothing_is_undefined(measure):
    assert np.isnan(measure([0, 0, 0]))


def test_one_expert_has_no_normalised_entropy():
    assert np.isnan(metrics.load_entropy([3], normalized=True))
    assert np.isnan(metrics.gini([3], normalized=True))
    assert metrics.effective_experts([3]) == 1
    assert metrics.cv_squared([3]) == 0


def test_what_is_not_a_load_is_refused_by_name():
    with pytest.raises(ValueError, match="load holds NaN"):
        metrics.load_share([1, np.nan])
    with pytest.raises(ValueError, match="load holds negative"):
        metrics.gini([1, -1])
    with pytest.raises(ValueError, match="load must have 1 axes"):
        metrics.cv_squared(PROFILES)
    with pytest.raises(ValueError, match="load holds no expert"):
        metrics.max_violation([])
    with pytest.raises(ValueError, match="order is 1 or 2"):
        metrics.effective_experts([1, 1], order=3)
    with pytest.raises(ValueError, match="share is at most 1"):
        metrics.unseen_probability(3, tokens=1)


def test_top_two_choices_of_the_catalogue_make_its_load():
    chosen = np.array([[0, 1], [0, 1], [0, 2], [2, 3]])
    mass = metrics.choice_mass(chosen, np.full((4, 2), 0.5), np.zeros((4, 2)), experts=4)
    assert (2 * mass.sum(axis=0)).tolist() == TOP_TWO_LOAD.tolist()


def test_nothing_routed_has_no_share_divergence_or_normalised_entropy():
    assert np.isnan(metrics.load_share([0, 0])).all()
    assert np.isnan(metrics.load_divergence([0, 0]))
    assert np.isnan(metrics.load_entropy([0, 0], normalized=True))
    assert np.isnan(metrics.effective_experts([0, 0], order=2))
    assert np.isnan(metrics.gini([0, 0], normalized=True))
    assert metrics.dead_experts([0, 0]).all()
    assert metrics.cold_experts([0, 0]).all()


def test_a_share_at_the_limit_is_not_cold():
    assert metrics.cold_experts([1, 39, 40, 20], alpha=0.04).tolist() == [False] * 4
    assert metrics.cold_experts([1, 39, 40, 20], alpha=0.041).tolist() == [
        True,
        False,
        False,
        False,
    ]


@settings(max_examples=25, deadline=None)
@given(loads)
def test_a_dead_expert_adds_no_entropy_and_no_hill_number(load):
    wider = np.append(load, 0)
    assert metrics.load_entropy(wider) == pytest.approx(metrics.load_entropy(load))
    assert metrics.effective_experts(wider) == pytest.approx(metrics.effective_experts(load))
    assert metrics.effective_experts(wider, order=2) == pytest.approx(
        1 / ((load / load.sum()) ** 2).sum()
    )
    assert metrics.min_violation(wider) == -1


@pytest.mark.parametrize(
    "measure",
    [
        metrics.load_share,
        metrics.cv_squared,
        metrics.max_violation,
        metrics.min_violation,
        metrics.load_entropy,
        metrics.load_divergence,
        metrics.effective_experts,
        metrics.gini,
        metrics.dead_experts,
        metrics.cold_experts,
    ],
)
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_every_measure_refuses_a_load_that_is_not_finite(measure, wrong):
    with pytest.raises(ValueError, match="load holds NaN or infinite"):
        measure([1, wrong])


def test_an_expert_that_takes_everything_is_always_seen():
    assert metrics.unseen_probability([0.0, 1.0], tokens=3).tolist() == [1, 0]
