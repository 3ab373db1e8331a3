"""A store holds the indices of what a recycled model was made of, and says when they are gone."""

import numpy as np
import pytest
import zarr

from routelab.records import Refusal
from routelab.store import open_store, verify_store
from tests.store import miniature

NEURONS = np.array([[0, 2, 5], [1, 2, 3]])


def test_indices_come_back_as_plain_zarr(tmp_path):
    writer = miniature.create(tmp_path / "s.zarr", lineage={"layer_06_neurons_core": NEURONS})
    miniature.append_rest(writer)
    lineage = open_store(tmp_path / "s.zarr").lineage()
    assert list(lineage) == ["layer_06_neurons_core"]
    np.testing.assert_array_equal(lineage["layer_06_neurons_core"], NEURONS)
    plain = zarr.open_group(tmp_path / "s.zarr", mode="r")["lineage/layer_06_neurons_core"]
    np.testing.assert_array_equal(plain[...], NEURONS)


def test_a_model_that_was_not_recycled_has_none(tmp_path):
    miniature.create(tmp_path / "s.zarr")
    assert open_store(tmp_path / "s.zarr").lineage() == {}
    assert not (tmp_path / "s.zarr" / "lineage").exists()


@pytest.mark.parametrize("harm", ["gone", "flipped"])
def test_a_damaged_index_is_refused_and_found_by_verify(tmp_path, harm):
    path = tmp_path / "s.zarr"
    writer = miniature.create(path, lineage={"layer_06_neurons_core": NEURONS})
    miniature.append_rest(writer)
    (chunk,) = [f for f in (path / "lineage").rglob("*") if f.is_file() and f.suffix != ".json"]
    content = bytearray(chunk.read_bytes())
    content[3] ^= 1
    chunk.unlink() if harm == "gone" else chunk.write_bytes(content)
    with pytest.raises(Refusal, match=r"lineage/layer_06_neurons_core"):
        open_store(path).lineage()
    checks = {check.name: check for check in verify_store(path)}
    assert not checks["every file whole"].passed
