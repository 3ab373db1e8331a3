import json
import re

import plotly.graph_objects as go

from routelab.figures import Caption, figure_html, layer_curve, library_html
from routelab.figures.curves import Series


def test_a_figures_data_cannot_end_its_element():
    figure = go.Figure(go.Scatter(x=[1], y=[2], text=["</script><script>alert(1)</script>"]))
    text = figure_html(figure, "f")
    assert text.count("</script>") == 1
    data = json.loads(re.search(r'data-figure="f">(.*)</script>', text)[1])
    assert data["data"][0]["text"] == ["</script><script>alert(1)</script>"]


def test_the_title_is_the_label_of_the_figure():
    figure = layer_curve(
        {"a": Series(value=[1])}, layers=["06"], unit="u", title='a "<b>" c', caption=Caption(n=1)
    )
    assert 'aria-label="a &quot;&lt;b&gt;&quot; c"' in figure_html(figure, "f")


def test_the_configuration_travels_with_each_figure():
    text = figure_html(go.Figure(), "f")
    assert '"showSendToCloud":false' in text
    assert '"displaylogo":false' in text


def test_the_library_is_inlined_not_linked():
    assert "src=" not in library_html()[:200]
    assert library_html().count("</script>") == 2
