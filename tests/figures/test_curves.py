import numpy as np

from routelab.figures import Caption, Series, layer_curve

GIVEN = {"unit": "share", "title": "t", "caption": Caption(n=9)}


def names(figure):
    return [trace.name for trace in figure.data if trace.showlegend is not False]


def test_equal_chance_levels_are_drawn_once():
    line = Series(value=[0.5, 0.6], chance=[0.1, 0.1])
    figure = layer_curve({"a": line, "b": line}, layers=["06", "07"], **GIVEN)
    assert names(figure) == ["chance", "a", "b"]


def test_different_chance_levels_are_drawn_each():
    lines = {"a": Series(value=[1], chance=[0.1]), "b": Series(value=[1], chance=[0.2])}
    figure = layer_curve(lines, layers=["06"], **GIVEN)
    assert names(figure) == ["chance, a", "a", "chance, b", "b"]


def test_the_interval_becomes_bars_of_its_lengths():
    line = Series(value=[0.5, np.nan], low=[0.4, np.nan], high=[0.7, np.nan])
    trace = layer_curve({"a": line}, layers=["06", "07"], **GIVEN).data[0]
    np.testing.assert_allclose(trace.error_y.array, [0.2, 0])
    np.testing.assert_allclose(trace.error_y.arrayminus, [0.1, 0])


def test_a_band_never_crosses_a_gap():
    line = Series(
        value=[1, 1, 1, 1],
        chance=[0, 0, 0, 0],
        chance_low=[0, np.nan, 0, 0],
        chance_high=[1, np.nan, 1, 1],
    )
    figure = layer_curve({"a": line}, layers=list("0123"), **GIVEN)
    bands = [trace for trace in figure.data if trace.fill == "toself"]
    assert [list(band.x) for band in bands] == [["0", "0"], ["2", "3", "3", "2"]]


def test_a_missing_layer_leaves_a_gap_and_a_note():
    figure = layer_curve({"a": Series(value=[1, np.nan, 1])}, layers=list("012"), **GIVEN)
    assert not figure.data[0].connectgaps
    assert "gap: undefined" in figure.layout.title.subtitle.text
