"""The demo from end to end, with hardly any training."""

import json

import pytest

from routelab.cli import main
from routelab.demo import VARIANTS, run_demo
from routelab.models import read_card
from routelab.records import Refusal
from routelab.store import open_store


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """A finished quick demo, what it told, and what it found."""
    out = tmp_path_factory.mktemp("demo") / "made"
    told = []
    return out, told, run_demo(out, quick=True, told=told.append)


def test_every_model_is_trained_captured_analysed_and_reported(demo):
    out, told, found = demo
    assert [finding.name for finding in found.found] == [v.name for v in VARIANTS]
    for variant in VARIANTS:
        assert read_card(out / f"{variant.name}.safetensors").spec == variant.spec
        store = open_store(out / f"{variant.name}.zarr")
        assert store.card.complete
        assert store.card.certificate.passed
        assert {"consistency", "load", "information", "probe"} <= set(store.results())
        assert "<html" in (out / f"{variant.name}.html").read_text()
    assert len(told) == 1 + 4 * len(VARIANTS)


def test_findings_come_with_n_chance_and_interval(demo):
    _, _, found = demo
    for finding in found.found:
        assert finding.n == 445
        assert 0 <= finding.accuracy <= 1
        assert finding.low <= finding.contrast <= finding.high
        assert 0 < finding.p <= 1
        assert finding.layer in ("02", "03", "04")
        assert sum(finding.budget.values()) == pytest.approx(1, abs=1e-6)


def test_a_second_run_repeats_nothing_and_finds_the_same(demo, capsys):
    out, _, found = demo
    before = (out / "soft.safetensors").stat().st_mtime_ns
    assert main(["demo", "--out", str(out), "--quick", "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == json.loads(json.dumps(found.to_dict()))
    assert "train a dense ViT" not in printed.err
    assert (out / "soft.safetensors").stat().st_mtime_ns == before


def test_the_table_says_what_to_do_next(demo, capsys):
    out, _, _ = demo
    assert main(["demo", "--out", str(out), "--quick"]) == 0
    shown = capsys.readouterr().out
    for word in ("445 test images", "0 by chance", "routelab inspect", "routelab verify"):
        assert word in shown


def test_other_options_and_other_folders_are_refused(demo, tmp_path):
    out, _, _ = demo
    with pytest.raises(Refusal, match="a demo with other options"):
        run_demo(out, quick=True, seed=1)
    (tmp_path / "mine.txt").write_text("keep me")
    with pytest.raises(Refusal, match="holds other files"):
        run_demo(tmp_path, quick=True, overwrite=True)
    assert (tmp_path / "mine.txt").read_text() == "keep me"
