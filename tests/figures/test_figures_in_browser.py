import pytest

from routelab.figures import figure_html, library_html
from tests.browser import needs_chromium, visit
from tests.figures.gallery import gallery


@pytest.mark.browser
@needs_chromium
def test_every_figure_draws_without_a_complaint(tmp_path):
    shown = gallery()
    body = "\n".join(figure_html(figure, f"f{i}") for i, figure in enumerate(shown.values()))
    page = tmp_path / "gallery.html"
    page.write_text(
        f'<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,">'
        f"<body>{body}{library_html()}</body>",
        encoding="utf-8",
    )
    seen = visit(page)
    assert seen.console == []
    assert seen.elements.count('class="plot-container plotly"') == len(shown)
    assert seen.links == []
    assert "cloud" not in seen.text.lower()
