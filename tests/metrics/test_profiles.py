import numpy as np
import pytest
from hypothesis import given, settings

from routelab import metrics
from tests.metrics.catalogue import (
    ASSIGNMENTS,
    COMBINE,
    GATES,
    LABELS,
    LOGITS,
    PROFILES,
    one_hot,
    random_profiles,
    seeds,
)


def test_profiles_of_the_catalogue():
    assert metrics.image_profile(GATES) == pytest.approx(PROFILES)
    assert metrics.image_profile(COMBINE[None])[0] == pytest.approx(
        [0.5142857, 0.4857143], abs=1e-6
    )
    assert metrics.class_profile(LABELS, PROFILES) == pytest.approx(
        np.array([[0.8, 0.2], [0.25, 0.75]])
    )
    assert PROFILES.mean(axis=0) == pytest.approx([0.525, 0.475])
    assert metrics.class_profile(LABELS, one_hot("partial")).tolist() == [[1, 0], [0.5, 0.5]]


def test_token_mass_by_class_of_the_catalogue():
    tokens = GATES.reshape(-1, 2)
    found = metrics.class_sums(LABELS.repeat(2), tokens, classes=2)
    assert found == pytest.approx(np.array([[3.2, 0.8], [1.0, 3.0]]))


def test_slots_are_summed_before_entropy():
    row = np.array([0.1, 0.2, 0.3, 0.4])
    assert metrics.shannon_entropy(row) == pytest.approx(1.2798542, abs=1e-6)
    mass = metrics.expert_mass(row, [0, 0, 1, 1])
    assert mass == pytest.approx([0.3, 0.7])
    assert metrics.shannon_entropy(mass) == pytest.approx(0.6108643, abs=1e-6)


def test_a_dropped_choice_has_no_mass():
    found = metrics.choice_mass(
        [[0, 2], [1, 0]], [[0.6, 0.4], [0.9, 0.1]], [[0, -1], [3, 0]], experts=3
    )
    assert found.tolist() == [[0.6, 0, 0], [0.1, 0.9, 0]]


def test_an_expert_chosen_twice_has_both_gates():
    assert metrics.choice_mass([[1, 1]], [[0.5, 0.25]], [[0, 1]], experts=2).tolist() == [[0, 0.75]]


def test_padding_changes_nothing_whatever_it_holds():
    padded = np.concatenate([GATES, np.full((4, 3, 2), np.nan)], axis=1)
    tokens = np.arange(5) < 2
    counts = np.broadcast_to(tokens, (4, 5))
    assert metrics.image_profile(padded, tokens=counts) == pytest.approx(PROFILES)
    assert metrics.tying_disagreement(padded, tokens=counts) == pytest.approx(
        metrics.tying_disagreement(GATES)
    )
    found = metrics.position_profile(padded, tokens=counts)
    assert found[:2] == pytest.approx(metrics.position_profile(GATES))
    assert np.isnan(found[2:]).all()


def test_an_image_without_tokens_is_nan():
    assert np.isnan(metrics.image_profile(GATES, tokens=np.zeros((4, 2), dtype=bool))).all()


def test_an_empty_class_is_a_nan_row_and_never_zero():
    found = metrics.class_profile([0, 2], [[1, 0], [0, 1]], classes=4)
    assert np.isnan(found[[1, 3]]).all()
    assert found[[0, 2]].tolist() == [[1, 0], [0, 1]]


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_class_profiles_equal_a_loop(seed):
    labels, rows = random_profiles(seed)
    expected = np.array([rows[labels == c].mean(axis=0) for c in range(4)])
    assert metrics.class_profile(labels, rows) == pytest.approx(expected)
    assert metrics.class_counts(labels, classes=6).tolist() == [*np.bincount(labels), 0, 0]


def test_balanced_weights_give_every_class_the_same():
    weights = metrics.image_weights([0, 0, 0, 3], balanced=True)
    assert weights == pytest.approx([1 / 6, 1 / 6, 1 / 6, 1 / 2])
    assert metrics.image_weights([0, 0, 0, 3], balanced=False) == pytest.approx(np.full(4, 0.25))


def test_ties_take_the_lowest_expert_and_are_counted():
    expert, tied = metrics.top_expert([[0.4, 0.4, 0.2], [0.1, 0.2, 0.7]])
    assert expert.tolist() == [0, 2]
    assert tied == 0.5
    assert np.isnan(metrics.top_expert(np.zeros((0, 3)))[1])


def test_a_hard_assignment_is_a_profile():
    assert (
        metrics.hard_profile(ASSIGNMENTS["partial"], experts=2).tolist()
        == one_hot("partial").tolist()
    )


def test_wrong_input_is_refused_by_name():
    with pytest.raises(ValueError, match="mass holds NaN"):
        metrics.image_profile(np.full((1, 1, 2), np.nan))
    with pytest.raises(ValueError, match="mass must have 3 axes"):
        metrics.image_profile(PROFILES)
    with pytest.raises(ValueError, match="tokens has shape"):
        metrics.image_profile(GATES, tokens=[True])
    with pytest.raises(ValueError, match="labels has 3 rows and profile has 4"):
        metrics.class_profile([0, 0, 1], PROFILES)
    with pytest.raises(ValueError, match="labels holds negative"):
        metrics.class_profile([0, 0, 1, -1], PROFILES)
    with pytest.raises(ValueError, match=r"labels must be whole numbers from 0; np\.unique"):
        metrics.class_profile(["cat", "cat", "dog", "dog"], PROFILES)
    with pytest.raises(ValueError, match="labels must be whole numbers from 0"):
        metrics.class_profile([0, 0, 1, np.nan], PROFILES)
    with pytest.raises(ValueError, match="labels must be whole numbers"):
        metrics.class_profile([0, 0, 1, 0.5], PROFILES)
    with pytest.raises(ValueError, match="labels must have 1 axis"):
        metrics.class_profile([[0, 0], [1, 1]], PROFILES)
    with pytest.raises(ValueError, match="labels go up to 1, and there are 1 classes"):
        metrics.class_sums(LABELS, PROFILES, classes=1)
    with pytest.raises(ValueError, match="assignment goes up to 1"):
        metrics.hard_profile([0, 1], experts=1)
    with pytest.raises(ValueError, match="weights have 4 slots and expert_of_slot 3"):
        metrics.expert_mass(np.ones(4), [0, 0, 1])


def test_the_largest_slot_may_belong_to_another_expert_than_the_largest():
    slots = np.array([0.3, 0.3, 0.4, 0.0])
    owner = np.array([0, 0, 1, 1])
    assert owner[slots.argmax()] == 1
    assert metrics.top_expert(metrics.expert_mass(slots[None], owner))[0].tolist() == [0]


def test_temperature_of_combine_moves_the_profile_as_the_catalogue_says():
    soft = np.sqrt(np.exp(LOGITS))
    combine = soft / soft.sum(axis=1, keepdims=True)
    assert combine[0] == pytest.approx([0.7101021, 0.2898979], abs=1e-6)
    assert metrics.image_profile(combine[None])[0] == pytest.approx(
        [0.5108588, 0.4891412], abs=1e-6
    )


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_expert_mass_equals_a_loop_and_keeps_experts_without_a_slot(seed):
    generator = np.random.default_rng(seed)
    weights, owner = generator.random((3, 5, 7)), generator.choice([0, 1, 3], 7)
    owner[0] = 3
    found = metrics.expert_mass(weights, owner)
    assert found.shape == (3, 5, 4)
    for expert in range(4):
        assert found[..., expert] == pytest.approx(weights[..., owner == expert].sum(axis=-1))
    assert (found[..., 2] == 0).all()


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_choice_mass_equals_a_loop(seed):
    generator = np.random.default_rng(seed)
    expert = generator.integers(0, 4, (2, 5, 2))
    gate, slot = generator.random((2, 5, 2)), generator.integers(-1, 3, (2, 5, 2))
    expected = np.zeros((2, 5, 4))
    for place in np.ndindex(2, 5, 2):
        if slot[place] >= 0:
            expected[(*place[:2], expert[place])] += gate[place]
    assert metrics.choice_mass(expert, gate, slot, experts=4) == pytest.approx(expected)


def test_a_kept_choice_of_no_expert_is_refused_and_a_dropped_one_ignored():
    assert metrics.choice_mass([[-1, 1]], [[0.4, 0.6]], [[-1, 0]], experts=2).tolist() == [[0, 0.6]]
    for missing in (-1, 2):
        with pytest.raises(ValueError, match="expert of a kept choice must be from 0 to 1"):
            metrics.choice_mass([[missing]], [[1.0]], [[0]], experts=2)


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_image_profiles_equal_a_loop_over_the_tokens_that_count(seed):
    generator = np.random.default_rng(seed)
    mass, tokens = generator.dirichlet(np.ones(3), size=(4, 6)), generator.random((4, 6)) < 0.6
    tokens[:, 0] = True
    expected = [rows[kept].mean(axis=0) for rows, kept in zip(mass, tokens, strict=True)]
    assert metrics.image_profile(mass, tokens=tokens) == pytest.approx(np.array(expected))


def test_splitting_a_slot_in_two_leaves_every_profile():
    halved = np.column_stack([COMBINE[:, :1] / 2, COMBINE[:, :1] / 2, COMBINE[:, 1:]])
    mass = metrics.expert_mass(halved[None], [0, 0, 1])
    assert metrics.image_profile(mass) == pytest.approx(metrics.image_profile(COMBINE[None]))


def test_shares_that_rounding_parts_are_still_tied():
    same = np.array([[0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1], [0.3 + 0.2 + 0.1, 0.1 + 0.2 + 0.3]])
    assert same[0, 0] != same[0, 1]
    expert, tied = metrics.top_expert(same)
    assert expert.tolist() == [0, 0]
    assert tied == 1
    assert metrics.top_expert([[1.0, 1.0 + 1e-9]])[0].tolist() == [1], "a small lead is a lead"


def test_an_expert_that_no_class_uses_is_a_column_of_zeros():
    found = metrics.class_profile(LABELS, metrics.hard_profile([0, 0, 1, 0], experts=3))
    assert found.tolist() == [[1, 0, 0], [0.5, 0.5, 0]]


def test_no_image_has_profiles_of_no_row():
    assert metrics.class_profile([], np.zeros((0, 2)), classes=2).shape == (2, 2)
    assert metrics.class_sums([], np.zeros((0, 0)), classes=2).shape == (2, 0)
    assert metrics.image_weights([], balanced=True).size == 0
    assert metrics.image_weights([], balanced=False).size == 0


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused_by_name(wrong):
    rows = np.where(PROFILES > 0.75, wrong, PROFILES)
    with pytest.raises(ValueError, match="weights holds NaN or infinite"):
        metrics.expert_mass(rows, [0, 1])
    with pytest.raises(ValueError, match="gate holds NaN or infinite"):
        metrics.choice_mass([[0]], [[wrong]], [[0]], experts=1)
    with pytest.raises(ValueError, match="mass holds NaN or infinite"):
        metrics.image_profile(rows[None], tokens=np.ones((1, 4), dtype=bool))
    with pytest.raises(ValueError, match="mass holds NaN or infinite"):
        metrics.position_profile(rows[None])
    with pytest.raises(ValueError, match="profile holds NaN or infinite"):
        metrics.class_profile(LABELS, rows)
    with pytest.raises(ValueError, match="values holds NaN or infinite"):
        metrics.class_sums(LABELS, rows, classes=2)
    with pytest.raises(ValueError, match="profile holds NaN or infinite"):
        metrics.top_expert(rows)
