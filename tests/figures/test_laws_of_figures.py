"""What holds for every figure, at its usual values and at its edges."""

import re

import plotly.graph_objects as go
import pytest

from routelab import figures
from routelab.figures import theme
from tests.figures.gallery import CAPTION, gallery

GALLERY = gallery()
NO_FIGURES = {"config", "figure_html", "library_html"}


def test_the_gallery_shows_every_figure():
    functions = {name for name in figures.__all__ if name[0].islower()} - NO_FIGURES
    assert {name.partition(",")[0] for name in GALLERY} == functions


@pytest.fixture(params=GALLERY, scope="module")
def figure(request):
    return GALLERY[request.param]


def test_a_figure_has_the_theme_and_a_title(figure):
    assert isinstance(figure, go.Figure)
    assert figure.layout.template == theme.TEMPLATE
    assert figure.layout.title.text.startswith("<b>")


def test_a_figure_says_n_chance_and_interval(figure):
    under = figure.layout.title.subtitle.text
    assert "n = 1,797 images" in under
    assert CAPTION.chance in under
    assert CAPTION.interval in under


def test_a_figure_has_room_for_its_caption(figure):
    lines = figure.layout.title.subtitle.text.count("<br>") + 1
    assert figure.layout.margin.t >= 40 + 16 * lines
    assert figure.layout.height - figure.layout.margin.t >= 120


def test_a_figure_has_no_outside_link_and_no_markup_from_names(figure):
    text = figure.to_json()
    assert not re.search(r"https?:|//[a-z]", text)
    assert "<a " not in text
    assert "alert" not in text or "&lt;script&gt;" in text.replace("\\u003c", "<")
    assert "<script" not in text.replace("\\u003c", "<")
