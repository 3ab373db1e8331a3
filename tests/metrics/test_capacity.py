import numpy as np
import pytest

from routelab import metrics

SCORES = [0.9, 0.6, 0.8, 0.7]
IN_ORDER, BY_PRIORITY = [1, 1, 0, 1], [1, 0, 1, 1]
"""Choices [0, 0, 0, 1] with room for two: kept as they come, or the largest scores first."""


def test_success_of_the_catalogue():
    assert metrics.capacity_success(SCORES, IN_ORDER) == pytest.approx((0.75, 0.7333333), abs=1e-6)
    assert metrics.capacity_success(SCORES, BY_PRIORITY) == pytest.approx((0.75, 0.8))


def test_success_of_each_expert():
    found = metrics.expert_success([0, 0, 0, 1], IN_ORDER, experts=3)
    assert found[:2] == pytest.approx([2 / 3, 1])
    assert np.isnan(found[2]), "nobody wanted it"


def test_tokens_by_the_number_of_experts_that_took_them():
    taken = np.array([[1, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 0, 0]])
    assert metrics.processed_share(taken).tolist() == [1, 0.75, 0.5, 0.25]


def test_nothing_wanted_is_undefined():
    assert np.isnan(metrics.capacity_success([], [])).all()
    assert np.isnan(metrics.processed_share(np.zeros((0, 2)))).all()
    found = metrics.capacity_success([0.0, 0.0], [True, True])
    assert found.choices == 1
    assert np.isnan(found.weight)


def test_choices_that_do_not_match_are_refused():
    with pytest.raises(ValueError, match="kept has shape"):
        metrics.capacity_success([1, 1], [True])
    with pytest.raises(ValueError, match="kept has 1 choices and expert 2"):
        metrics.expert_success([0, 1], [True], experts=2)
