import numpy as np

from routelab.figures import Caption, Group, load_bars

GIVEN = {"title": "t", "caption": Caption(n=9)}


def test_a_layer_with_fewer_experts_has_its_own_uniform_line():
    share = [[0.25] * 4, [0.5, 0.5, np.nan, np.nan]]
    figure = load_bars(share, layers=["06", "07"], **GIVEN)
    assert [shape.y0 for shape in figure.layout.shapes] == [0.25, 0.5]
    assert [len(trace.x) for trace in figure.data] == [4, 2]


def test_groups_have_their_colours_and_one_legend_entry():
    groups = [Group("core", 0, 1), Group("universal", 1, 3)]
    figure = load_bars([[0.5, 0.3, 0.2]] * 2, layers=["06", "07"], groups=[groups] * 2, **GIVEN)
    shown = [trace.name for trace in figure.data if trace.showlegend]
    assert shown == ["core", "universal"]
    colours = {trace.name: trace.marker.color for trace in figure.data}
    assert colours["core"] != colours["universal"]


def test_dead_experts_are_marked():
    figure = load_bars([[0.0, 1.0]], layers=["06"], dead=[[1, 0]], cold=[[0, 0]], **GIVEN)
    marks = [trace for trace in figure.data if trace.name == "dead"]
    assert [list(mark.x) for mark in marks] == [[0]]
    assert not [trace for trace in figure.data if trace.name == "cold"]
