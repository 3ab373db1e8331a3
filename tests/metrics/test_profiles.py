import numpy as np
import pytest
from hypothesis import given, settings

from routelab import metrics
from tests.metrics.catalogue import (
    ASSIGNMENTS,
    COMBINE,
    GATES,
    LABELS,
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
