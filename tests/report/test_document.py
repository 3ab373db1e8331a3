"""Is the report one whole file, that asks nothing of the network and trusts no name?"""

import re
from dataclasses import replace

import pytest

from routelab.records import Refusal
from routelab.report import write_report
from routelab.report.sections import SECTIONS
from tests.browser import needs_chromium, visit
from tests.report.synthetic import results

EVIL = '</script><script>alert("x")</script>'


@pytest.fixture(scope="module")
def report(full_store, tmp_path_factory):
    """The report of a planted store with every Result saved; names are hostile."""
    return write_report(full_store, tmp_path_factory.mktemp("report") / "report.html")


@pytest.fixture(scope="module")
def html(report):
    return report.read_text(encoding="utf-8")


def test_every_section_is_there(html):
    there = re.findall(r'<section id="(\w+)">', html)
    assert there == [key for key in SECTIONS if key != "missing"]


def test_nothing_is_loaded_from_elsewhere(html):
    page = re.sub(r"<script\b.*?</script>", "", html, flags=re.DOTALL)
    assert not re.search(r'(?:src|href)="(?!data:|#)', page)
    assert "default-src 'none'" in page
    assert "@import" not in page
    assert not re.search(r"url\(\s*['\"]?(?!data:)", page)
    assert html.count("plotly.js v") == 1


def test_names_are_data(full_store, tmp_path):
    name = full_store.results()[0]
    saved = full_store.result(name)
    full_store.save_result(replace(saved, warnings=(EVIL,), summary=EVIL))
    try:
        text = write_report(full_store, tmp_path / "r.html").read_text(encoding="utf-8")
    finally:
        full_store.save_result(saved)
    assert "alert(&quot;x&quot;)" in text
    assert EVIL not in text


def test_a_store_without_results_says_which_commands_make_them(bare_store, tmp_path):
    text = write_report(bare_store.path, tmp_path / "r.html").read_text(encoding="utf-8")
    for name in results(["0"], 2, ["a", "b"], 4):
        assert f"routelab analyze {bare_store.path} --only {name}" in text


def test_a_failed_write_leaves_the_old_report(bare_store, tmp_path, monkeypatch):
    target = tmp_path / "r.html"
    target.write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(Refusal, match=r"r\.html.*No space left.*--out"):
        write_report(bare_store, target)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_folder_is_no_report(bare_store, tmp_path):
    with pytest.raises(Refusal, match="is a folder"):
        write_report(bare_store, tmp_path)


def test_a_missing_store_is_refused(tmp_path):
    with pytest.raises(Refusal, match=r"gone\.zarr"):
        write_report(tmp_path / "gone.zarr", tmp_path / "r.html")
    assert not (tmp_path / "r.html").exists()


@pytest.mark.browser
@needs_chromium
def test_the_report_opens_without_a_complaint_or_a_request(report, html):
    seen = visit(report)
    assert seen.console == []
    assert seen.links == []
    assert seen.elements.count('class="plot-container plotly"') == html.count("data-figure=")
    assert "cloud" not in seen.text.lower()
