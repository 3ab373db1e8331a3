import numpy as np
import pytest

from routelab.report.selection import MOST_CELLS, fitting, profile_order, spread, used_experts


@pytest.mark.parametrize(
    ("places", "most", "chosen"),
    [(3, 5, [0, 1, 2]), (6, 3, [0, 2, 5]), (6, 1, [5]), (1, 1, [0]), (0, 4, [])],
)
def test_places_are_spread_and_the_last_is_among_them(places, most, chosen):
    assert spread(places, most) == chosen


def test_maps_that_are_too_large_leave_one_layer():
    assert fitting(6, MOST_CELLS * 2) == [5]
    assert fitting(6, 10) == list(range(6))


def test_padding_is_not_an_expert():
    assert used_experts(np.array([[1.0, np.nan, np.nan], [np.nan, 2.0, np.nan]])) == 2
    assert used_experts(np.full((2, 3), np.nan)) == 1


def test_classes_are_ordered_by_expert_then_share_and_empty_ones_come_last():
    profile = np.array([[0.1, 0.9], [np.nan, np.nan], [0.6, 0.4], [0.8, 0.2]])
    assert profile_order(profile) == [3, 2, 0, 1]
