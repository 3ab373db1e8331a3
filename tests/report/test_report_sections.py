"""Does each section draw what there is, and stay silent about what there is not?"""

from dataclasses import replace

import numpy as np
import pytest

from routelab.records import Certificate, Check, Quantity, Result
from routelab.report.content import Material, Notices, Picture, Table, Words
from routelab.report.sections import SECTIONS
from routelab.report.sections.missing import QUESTIONS
from routelab.report.selection import profile_order
from routelab.store import open_store
from routelab.testing import planted_store
from tests.report.synthetic import results

ANALYSES = tuple(QUESTIONS)


@pytest.fixture(scope="module")
def material(full_store):
    return Material(full_store, {name: full_store.result(name) for name in full_store.results()})


def pictures(section):
    return [block.figure for block in section.blocks if isinstance(block, Picture)]


@pytest.mark.parametrize("name", ANALYSES)
def test_an_analysis_is_drawn_with_its_n(material, name):
    figures = pictures(SECTIONS[name](material))
    assert figures
    for figure in figures:
        assert "n = 64 images" in figure.layout.title.subtitle.text


@pytest.mark.parametrize("name", ANALYSES)
def test_an_analysis_that_was_not_run_has_no_section(full_store, name):
    assert SECTIONS[name](Material(full_store)) is None


@pytest.mark.parametrize("name", ANALYSES)
def test_a_result_without_the_known_quantities_is_no_error(full_store, name):
    empty = Result(name=name, n=1, quantities={}, summary="Nothing.")
    section = SECTIONS[name](Material(full_store, {name: empty}))
    assert pictures(section) == []


@pytest.mark.parametrize("name", ANALYSES)
def test_undefined_numbers_and_one_layer_with_one_expert_are_drawn(full_store, name):
    made = results(["06"], 1, ["only"], 64)[name]
    undefined = {
        key: Quantity(value=np.full(q.value.shape, np.nan), dims=q.dims, reason="one class")
        for key, q in made.quantities.items()
    }
    for quantities in (made.quantities, undefined):
        result = replace(made, quantities=quantities)
        assert SECTIONS[name](Material(full_store, {name: result})).title


def test_the_heatmap_is_sorted_by_one_half_and_drawn_from_the_other(material):
    figure = next(
        f for f in pictures(SECTIONS["consistency"](material)) if "Class ×" in f.layout.title.text
    )
    result = material.results["consistency"]
    order = profile_order(result["class_profile_a"].value[0])
    drawn = result["class_profile_b"].value[0][order]
    np.testing.assert_allclose(figure.data[0].z, drawn, rtol=1e-6)


def test_what_failed_stands_first_with_a_link_to_its_section(material):
    store = open_store(material.store.path)
    store.card = store.card.model_copy(
        update={
            "complete": False,
            "refused": {"05": "its logits are NaN"},
            "certificate": Certificate(checks=(Check(name="replay", passed=False),)),
        }
    )
    (notices,) = SECTIONS["worth"](Material(store, material.results)).blocks
    assert isinstance(notices, Notices)
    text = dict(notices.rows)
    assert "The certificate's check of replay failed." in text
    assert "Layer 05 was left out: its logits are NaN" in text
    assert any("not complete" in line for line in text)
    assert text["Layer 06 has collapsed: expert 0 holds 99% of the mass."] == "load"
    assert set(text.values()) <= set(SECTIONS)


def test_accuracy_has_an_interval_and_a_baseline(material):
    facts = dict(SECTIONS["captured"](material).blocks[0].rows)
    right = (material.store.labels == material.store.predictions).mean()
    assert facts["accuracy"].startswith(f"{right:.1%} of 64 (95 % Wilson interval")
    assert "always the commonest class: 12.5%" in facts["accuracy"]


def test_the_certificate_has_a_row_a_check(material):
    tables = [b for b in SECTIONS["captured"](material).blocks if isinstance(b, Table)]
    certificate = next(table for table in tables if table.title == "Certificate")
    assert len(certificate.rows) == len(material.card.certificate.checks)


def test_example_images_show_every_layer_and_the_class_token_beside(material):
    first = pictures(SECTIONS["images"](material))[0]
    names = [note.text for note in first.layout.annotations]
    assert names == ["image", "layer 06", "layer 07", "layer 08"]
    assert len(first.layout.shapes) == 3  # one class token a layer


@pytest.mark.parametrize(("router", "grids"), [("topk", 3), ("image", 0), ("sphero", 3)])
def test_example_images_of_other_routers(tmp_path, router, grids):
    path = planted_store(tmp_path / "s.zarr", "healthy", images=16, router=router)
    first = pictures(SECTIONS["images"](Material(open_store(path))))[0]
    assert sum(image.layer == "above" for image in first.layout.images) == grids


def test_a_store_without_full_routing_shows_no_images(bare_store):
    assert SECTIONS["images"](Material(bare_store)) is None


def test_what_was_not_computed_comes_with_its_command(bare_store):
    (table,) = SECTIONS["missing"](Material(bare_store)).blocks
    assert [row[0] for row in table.rows] == list(ANALYSES)


def test_a_faultless_store_has_nothing_worth_a_look(bare_store):
    blocks = SECTIONS["worth"](Material(bare_store)).blocks
    assert blocks == [Words("Nothing stands out: every check passed.")]
