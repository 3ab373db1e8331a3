import numpy as np
import pytest

from routelab.records import Quantity, Result
from routelab.report.reading import (
    caption,
    cell,
    curves,
    find,
    layer_table,
    layer_warnings,
    layers_of,
    merge,
    number,
)

LAYERS = ("layer",)


def result(**quantities):
    return Result(name="x", n=7, quantities=quantities, coords={"layer": ["06", "07"]})


@pytest.mark.parametrize(
    ("value", "text"),
    [(np.nan, "–"), (0, "0"), (0.12345, "0.123"), (1234, "1,234"), (5e-5, "5.00e-05")],
)
def test_numbers_have_three_digits(value, text):
    assert number(value) == text


def test_a_quantity_over_other_axes_or_all_undefined_is_not_found():
    answer = result(
        a=Quantity(value=[1, 2], dims=LAYERS), b=Quantity(value=[np.nan] * 2, dims=LAYERS)
    )
    assert find(answer, "a", "layer") is answer["a"]
    assert find(answer, "a", "layer", "expert") is None
    assert find(answer, "b", "layer") is None
    assert find(answer, "c", "layer") is None


def test_a_cell_has_interval_chance_and_p():
    quantity = Quantity(value=[0.5], dims=LAYERS, low=0.4, high=0.6, chance=0.1, p=0.01)
    assert cell(quantity, 0) == "0.5\n[0.4, 0.6]\nchance 0.1\np 0.01"


def test_an_undefined_cell_has_no_interval():
    assert cell(Quantity(value=[np.nan], dims=LAYERS, low=0.1, high=0.2), 0) == "–"


def test_the_caption_has_the_results_n_and_chance_range():
    quantity = Quantity(
        value=[1, 2], dims=LAYERS, chance=[0.1, 0.2], low=0, high=3, meaning="what it is"
    )
    made = caption(result(a=quantity), quantity)
    assert made.n == 7
    assert made.chance == "0.1 to 0.2"
    assert made.interval == "95%, over images"
    assert made.notes == ("what it is",)


def test_words_stand_in_for_a_chance_level_that_is_not_a_number():
    quantity = Quantity(value=[1, 2], dims=LAYERS)
    assert caption(result(a=quantity), quantity, chance="the diagonal").chance == "the diagonal"


def test_tables_and_curves_take_what_is_there():
    answer = result(a=Quantity(value=[1, 2], dims=LAYERS))
    table = layer_table(answer, {"a": "A", "gone": "G"})
    assert table is not None
    assert (table.columns, table.rows) == (["layer", "A"], [["06", "1"], ["07", "2"]])
    assert layer_table(answer, {"gone": "G"}) is None
    assert list(curves(answer, {"a": "A", "gone": "G"})) == ["A"]


def test_a_chance_band_is_read_from_the_null_quantities():
    answer = result(
        a=Quantity(value=[1, 2], dims=LAYERS, chance=0.5),
        a_null_low=Quantity(value=[0.4, 0.4], dims=LAYERS),
        a_null_high=Quantity(value=[0.6, 0.7], dims=LAYERS),
    )
    line = curves(answer, {"a": "A"})["A"]
    assert (list(line.chance_low), list(line.chance_high)) == ([0.4, 0.4], [0.6, 0.7])


def test_layers_without_names_are_numbered():
    answer = Result(name="x", n=1, quantities={"a": Quantity(value=[1, 2], dims=LAYERS)})
    assert layers_of(answer) == ["0", "1"]


def test_warnings_that_differ_in_their_layer_become_one():
    assert merge(["Layer 06 is soft.", "All is noise.", "Layer 07 is soft."]) == [
        "Layer 06 is soft. (The same holds for layer 07.)",
        "All is noise.",
    ]


def test_a_figure_carries_few_warnings_and_counts_the_others():
    quantity = Quantity(value=[1, 2], dims=LAYERS)
    made = caption(result(a=quantity), quantity, warnings=[f"Warning {i}." for i in range(9)])
    assert len(made.warnings) == 4
    assert made.warnings[-1].startswith("6 more")


def test_warnings_go_to_the_layer_that_they_name():
    given = ("Layer 06 is flat.", "All is noise.", "Layer 06: it is noise.")
    answer = Result(name="x", n=1, quantities={}, warnings=given)
    assert layer_warnings(answer, "06") == (given[0], given[2])
    assert layer_warnings(answer, None) == ("All is noise.",)
