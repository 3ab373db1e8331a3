import pytest

from routelab.figures import Caption, expert_matrices, named_matrix

GIVEN = {"unit": "lift", "title": "t", "caption": Caption(n=9)}


def test_the_middle_is_the_middle_of_the_colours():
    figure = expert_matrices({"06": [[1.0, 3.0], [0.5, 1.0]]}, middle=1.0, **GIVEN)
    assert (figure.layout.coloraxis.cmin, figure.layout.coloraxis.cmax) == (-1, 3)
    assert "1 (white): as by chance" in figure.layout.title.subtitle.text


def test_panels_share_one_scale_from_zero():
    figure = expert_matrices({"06": [[0.2]], "07": [[0.7]]}, **GIVEN)
    assert figure.layout.coloraxis.cmin == 0
    assert figure.layout.coloraxis.cmax == pytest.approx(0.7)
    assert {trace.coloraxis for trace in figure.data} == {"coloraxis"}


def test_names_label_rows_and_columns():
    figure = named_matrix([[1, 2], [3, 4]], rows=["r", "s"], columns=["c", "d"], **GIVEN)
    assert list(figure.data[0].y) == ["r", "s"]
    assert list(figure.data[0].x) == ["c", "d"]
