import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from routelab.records import Quantity, Refusal, Result
from routelab.store import files, results
from routelab.store.layout import write_group

MESSAGE = "flat by construction: k = E — naïve “quote”, 図"

floats = hnp.arrays(
    np.float64, hnp.array_shapes(min_dims=0, max_dims=3, max_side=3), elements=st.floats()
)


def result(value, name="load"):
    value = np.asarray(value, np.float64)
    quantity = Quantity(
        value=value,
        dims=tuple(f"axis {number}" for number in range(value.ndim)),
        chance=value / 3,
        low=None,
        high=np.array(np.nan),
        unit="nats",
        meaning="how much",
        reason="empty class",
    )
    return Result(
        name=name,
        quantities={"share": quantity, "other": Quantity(value=np.array(0.1))},
        coords={"axis 0": ["06", "é"]},
        parameters={"seed": 0, "only": None, "names": ["a"], "alpha": 0.05},
        n=12,
        summary="one",
        warnings=(MESSAGE, "two"),
    )


def assert_same(one, other):
    for name in ("name", "coords", "parameters", "n", "summary", "warnings"):
        assert getattr(one, name) == getattr(other, name)
    assert list(one.quantities) == list(other.quantities)
    for name, quantity in one.quantities.items():
        twin = other[name]
        assert (quantity.dims, quantity.unit, quantity.meaning, quantity.reason) == (
            twin.dims,
            twin.unit,
            twin.meaning,
            twin.reason,
        )
        for field in ("value", "chance", "low", "high", "p"):
            a, b = getattr(quantity, field), getattr(twin, field)
            assert (a is None) == (b is None)
            if a is not None:
                np.testing.assert_array_equal(a, b, strict=True)


@settings(max_examples=25, deadline=None)
@given(floats)
def test_a_result_comes_back_exactly(tmp_path_factory, value):
    path = tmp_path_factory.mktemp("store")
    saved = result(value)
    results.save(path, saved)
    assert_same(saved, results.load(path, "load"))


def test_the_file_is_strict_json(tmp_path):
    results.save(tmp_path, result([np.nan, np.inf]))

    def refuse(constant):
        raise AssertionError(constant)

    text = (tmp_path / "results" / "load" / "zarr.json").read_text("utf-8")
    json.loads(text, parse_constant=refuse)


def test_saving_again_replaces_and_names_are_sorted(tmp_path):
    for name in ("paths", "load"):
        results.save(tmp_path, result([1.0, 2.0], name))
    results.save(tmp_path, result([3.0], "load"))
    assert results.names(tmp_path) == ("load", "paths")
    assert results.load(tmp_path, "load")["share"].value.tolist() == [3.0]


def test_a_save_that_breaks_off_leaves_the_old_result(tmp_path, monkeypatch):
    results.save(tmp_path, result([1.0]))
    monkeypatch.setattr(files, "write_part", lambda *_: (_ for _ in ()).throw(OSError("off")))
    with pytest.raises(OSError, match="off"):
        results.save(tmp_path, result([2.0]))
    assert results.load(tmp_path, "load")["share"].value.tolist() == [1.0]


def test_an_unknown_result_is_refused_with_those_there(tmp_path):
    results.save(tmp_path, result([1.0]))
    with pytest.raises(Refusal, match=r"no result 'paths' \(it holds: load\).*routelab analyze"):
        results.load(tmp_path, "paths")


@pytest.mark.parametrize("content", [b"", b"{", b'{"attributes": {}}', b'{"attributes": 3}'])
def test_a_damaged_result_is_refused(tmp_path, content):
    results.save(tmp_path, result([1.0]))
    (tmp_path / "results" / "load" / "zarr.json").write_bytes(content)
    with pytest.raises(Refusal, match="damaged"):
        results.load(tmp_path, "load")


def test_an_object_is_no_parameter_and_a_path_is_no_name(tmp_path):
    with pytest.raises(ValueError, match="plain word"):
        results.save(tmp_path, result([1.0], "../load"))
    odd = Result(name="load", quantities={}, parameters={"keys": (1, 2)}, n=1)
    with pytest.raises(ValueError, match="JSON values"):
        results.save(tmp_path, odd)
    write_group(tmp_path / "x", {})
