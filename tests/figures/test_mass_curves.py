import numpy as np

from routelab.figures import Caption, MassCurve, mass_curves

GIVEN = {"of": "tokens", "title": "t", "caption": Caption(n=9)}


def test_wide_bands_lie_under_narrow_ones_and_the_diagonal_is_there():
    steps = np.linspace(0, 1, 3)
    curve = MassCurve(steps, {60: (steps, steps), 99: (steps, steps)})
    figure = mass_curves({"06": curve}, fraction=steps, **GIVEN)
    assert [trace.name for trace in figure.data] == [
        "central 99 %",
        "central 60 %",
        "uniform",
        "mean",
    ]
    assert list(figure.data[2].x) == list(figure.data[2].y) == [0, 1]


def test_an_undefined_band_is_left_out():
    curve = MassCurve([0, 1], {90: ([0, np.nan], [1, 1])})
    figure = mass_curves({"06": curve}, fraction=[0, 1], **GIVEN)
    assert [trace.name for trace in figure.data] == ["uniform", "mean"]


def test_the_legend_names_each_thing_once():
    figure = mass_curves({name: MassCurve([0, 1]) for name in "abcd"}, fraction=[0, 1], **GIVEN)
    assert sum(bool(trace.showlegend) for trace in figure.data) == 2
