import shutil

import pytest

from routelab.records import Refusal
from routelab.store import open_store, verify_store
from routelab.testing import planted_store
from tests.store import miniature


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return miniature.complete(tmp_path_factory.mktemp("stores") / "whole.zarr")


def failed(path):
    return {check.name: check.detail for check in verify_store(path) if not check.passed}


def flip(file, place):
    data = bytearray(file.read_bytes())
    data[place] ^= 0x40
    file.write_bytes(data)


@pytest.mark.parametrize("router", ["soft", "sphero", "topk", "image"])
def test_a_whole_store_passes_with_measured_values(tmp_path, router):
    path = planted_store(tmp_path / "s.zarr", "healthy", router=router, images=32, layers=2)
    checks = verify_store(path)
    assert all(check.passed for check in checks)
    assert all(check.value is not None and check.limit is not None for check in checks)
    assert len(checks) == (10 if router in ("soft", "sphero") else 8)


def test_swapped_axes_are_found(tmp_path):
    path = planted_store(tmp_path / "s.zarr", "swapped_axes", images=32, layers=1)
    assert sorted(failed(path)) == ["combine rows sum to 1, 06", "dispatch columns, 06"]


def test_a_flipped_bit_is_found_and_its_file_named(whole, tmp_path):
    path = shutil.copytree(whole, tmp_path / "s.zarr")
    flip(path / "layers" / "07" / "pooled" / "c.0.0", 20)
    assert list(failed(path)) == ["every file whole"]
    assert "07/pooled/c.0.0: chunk 0" in failed(path)["every file whole"]


def test_a_missing_file_is_a_failed_check(whole, tmp_path):
    path = shutil.copytree(whole, tmp_path / "s.zarr")
    (path / "layers" / "06" / "logits" / "c.1.0.0").unlink()
    found = failed(path)
    assert "every file whole" in found
    assert "combine rows sum to 1, 06" in found
    assert "combine rows sum to 1, 07" not in found
    assert all("c.1.0.0 is missing" in detail for detail in found.values())


def test_a_damaged_total_is_found(whole, tmp_path):
    path = shutil.copytree(whole, tmp_path / "s.zarr")
    flip(path / "totals" / "06" / "class_mass" / "c" / "0" / "0", 3)
    assert "class_mass" in failed(path)["every file whole"]


def test_damaged_ids_are_found(whole, tmp_path):
    path = shutil.copytree(whole, tmp_path / "s.zarr")
    flip(path / "images" / "id" / "c.0", 9)
    assert failed(path)["every image once"].startswith(f"{path}/images/id is damaged")
    (path / "images" / "id" / "c.0").unlink()
    assert "id/c.0 is missing" in failed(path)["every image once"]


def test_an_unfinished_store_misses_images(tmp_path):
    with miniature.create(tmp_path / "s.zarr") as writer:
        miniature.append_rest(writer, until=4)
        writer.commit()
    assert list(failed(tmp_path / "s.zarr")) == ["every image once"]


def test_sums_that_are_not_those_of_the_tables_are_found(tmp_path):
    path = miniature.complete(tmp_path / "s.zarr")
    other = miniature.complete(tmp_path / "other.zarr", labels=(miniature.LABELS + 1) % 3)
    label = path / "images" / "label" / "c.0"
    shutil.copy(other / "images" / "label" / "c.0", label)
    assert sorted(failed(path)) == [f"sums are those of the tables, {key}" for key in ("06", "07")]


def test_an_open_store_or_its_path_may_be_given(whole):
    assert verify_store(open_store(whole)) == verify_store(str(whole))
    with pytest.raises(Refusal, match="does not exist"):
        verify_store("nowhere.zarr")
