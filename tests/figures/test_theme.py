import plotly.io
import pytest

from routelab.figures import config, theme


def test_the_template_is_registered_but_not_forced_on_others():
    assert "routelab" in plotly.io.templates
    assert plotly.io.templates.default != "routelab"


def test_colours_are_distinct_and_stable_by_index():
    assert len(set(theme.PALETTE)) == len(theme.PALETTE)
    assert theme.colour(0) == "#0072B2"
    assert theme.colour(len(theme.PALETTE)) == theme.colour(0)


def test_the_middle_of_the_diverging_scale_is_nearly_white():
    middle = theme.DIVERGING[len(theme.DIVERGING) // 2]
    assert min(theme.rgb(middle)) > 240


def test_translucent_keeps_the_colour():
    assert theme.translucent("#FF8000", 0.25) == "rgba(255,128,0,0.250)"


@pytest.mark.parametrize("name", ["displaylogo", "showSendToCloud", "showEditInChartStudio"])
def test_nothing_can_be_sent_to_a_cloud(name):
    assert config()[name] is False
    assert config()["plotlyServerURL"] == ""
    assert "sendChartToCloud" in config()["modeBarButtonsToRemove"]
