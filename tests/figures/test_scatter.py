import numpy as np
import plotly.graph_objects as go

from routelab.figures import Caption, embedding_scatter
from routelab.figures.scatter import WEBGL_FROM


def draw(points, group, names, **options):
    given = {"score": "silhouette 0.1", "title": "t", "caption": Caption(n=9)}
    return embedding_scatter(points, group=group, names=names, **(given | options))


def test_a_group_keeps_the_colour_of_its_index():
    every = draw(np.zeros((3, 2)), [0, 1, 2], ["a", "b", "c"])
    last = draw(np.zeros((1, 2)), [2], ["a", "b", "c"])
    assert every.data[2].marker.color == last.data[0].marker.color


def test_many_points_are_drawn_by_webgl():
    few = draw(np.zeros((5, 2)), [0] * 5, ["a"])
    many = draw(np.zeros((WEBGL_FROM + 1, 2)), [0] * (WEBGL_FROM + 1), ["a"])
    assert isinstance(few.data[0], go.Scatter)
    assert isinstance(many.data[0], go.Scattergl)


def test_the_original_spaces_score_is_in_the_caption():
    figure = draw(np.zeros((1, 2)), [0], ["a"])
    assert "in the original space: silhouette 0.1" in figure.layout.title.subtitle.text


def test_colours_repeat_with_another_symbol_and_the_legend_goes():
    figure = draw(np.zeros((60, 2)), np.arange(60), [str(i) for i in range(60)])
    first, again = figure.data[0], figure.data[17]
    assert first.marker.color == again.marker.color
    assert first.marker.symbol != again.marker.symbol
    assert not figure.layout.showlegend


def test_points_that_are_nowhere_are_left_out():
    figure = draw([[0, 0], [np.nan, 0]], [0, 0], ["a"])
    assert [len(trace.x) for trace in figure.data] == [1]
