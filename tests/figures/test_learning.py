import numpy as np

from routelab.figures import Caption, Learning, learning_curves

ARM = Learning(
    spent={"updates": [10, 20], "seconds": [1.5, 3.0]},
    value=[0.4, 0.6],
    low=[0.3, np.nan],
    high=[0.6, np.nan],
)


def drawn():
    return learning_curves(
        {"a": ARM, "<b>": ARM},
        axes=("updates", "seconds"),
        unit="accuracy",
        chance=0.1,
        title="t",
        caption=Caption(n=3, of="seeds", chance="1/10"),
    )


def test_each_panel_has_each_arm_over_what_it_spent():
    figure = drawn()
    assert [list(trace.x) for trace in figure.data] == [[10, 20]] * 2 + [[1.5, 3.0]] * 2
    assert [trace.name for trace in figure.data] == ["a", "&lt;b&gt;"] * 2
    assert [trace.showlegend for trace in figure.data] == [True, True, False, False]
    assert figure.data[0].line.color != figure.data[1].line.color


def test_intervals_are_bars_and_chance_is_a_line_in_each_panel():
    figure = drawn()
    np.testing.assert_allclose(figure.data[0].error_y.array[0], 0.2)
    np.testing.assert_allclose(figure.data[0].error_y.arrayminus[0], 0.1)
    assert [shape.y0 for shape in figure.layout.shapes] == [0.1, 0.1]
    assert "n = 3 seeds · chance: 1/10" in figure.layout.title.subtitle.text
