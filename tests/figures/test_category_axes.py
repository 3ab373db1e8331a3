import numpy as np

from routelab.figures.axes import (
    Group,
    category_axis,
    distinct,
    finite,
    gap_note,
    group_marks,
    reach,
)


def test_equal_names_stay_two_places():
    assert distinct(["a", "b", "a"]) == ["a (0)", "b", "a (2)"]


def test_a_thousand_names_are_thinned_and_the_title_says_so():
    axis = category_axis([f"name {i}" for i in range(1000)], title="class", most=50)
    assert len(axis["categoryarray"]) == 1000
    assert len(axis["tickvals"]) == len(axis["ticktext"]) == 50
    assert "every 20th" in axis["title"]["text"]


def test_numbers_as_names_are_categories_not_numbers():
    assert category_axis(["0", "10", "2"])["type"] == "category"


def test_long_names_are_cut_on_the_axis_only():
    axis = category_axis(["x" * 60])
    assert axis["ticktext"][0].endswith("…")
    assert axis["categoryarray"] == ["x" * 60]


def test_no_names_make_an_empty_axis():
    assert category_axis([])["tickvals"] == []


def test_infinities_become_gaps_and_are_noted():
    assert np.isnan(finite([np.inf, -np.inf, 1.0])).tolist() == [True, True, False]
    assert gap_note([1.0]) == ""
    assert "undefined" in gap_note([np.nan])


def test_reach_of_nothing_is_one():
    assert reach([np.nan]) == 1.0
    assert reach([-3.0, 2.0]) == 3.0


def test_one_group_needs_no_mark():
    assert group_marks([Group("all", 0, 4)])["shapes"] == []
    marks = group_marks([Group("core", 0, 2), Group("universal", 2, 4)])
    assert [shape["x0"] for shape in marks["shapes"]] == [1.5]
    assert [note["text"] for note in marks["annotations"]] == ["core", "universal"]
