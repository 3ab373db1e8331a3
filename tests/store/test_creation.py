import errno

import numpy as np
import pytest
import zarr

from routelab.records import Refusal
from routelab.store import creation, files, fingerprint, open_store
from tests.store import miniature


def test_a_new_store_is_empty_and_plain_zarr(tmp_path):
    with miniature.create(tmp_path / "deep" / "s.zarr") as writer:
        assert writer.committed == 0
    store = open_store(tmp_path / "deep" / "s.zarr")
    assert (store.committed, store.full, store.card.complete) == (0, 0, False)
    assert store.labels.shape == (0,)
    assert store.profile("06").shape == (0, 3)
    assert store.total("06", "class_mass").tolist() == np.zeros((3, 3)).tolist()
    assert zarr.open_array(store.path / "layers" / "06" / "logits").shape == (6, 5, 5)
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["s.zarr"]


def test_a_store_that_exists_is_kept(tmp_path):
    path = miniature.complete(tmp_path / "s.zarr")
    before = fingerprint(path)
    with pytest.raises(Refusal, match=r"s\.zarr exists; continue it with --resume, replace it"):
        miniature.create(path)
    assert fingerprint(path) == before


def test_overwrite_replaces_a_store(tmp_path):
    path = miniature.complete(tmp_path / "s.zarr")
    miniature.create(path, overwrite=True).close()
    assert open_store(path).committed == 0
    assert [child.name for child in tmp_path.iterdir()] == ["s.zarr"]


def test_overwrite_replaces_a_store_of_another_version(tmp_path):
    path = miniature.complete(tmp_path / "s.zarr")
    root = path / "zarr.json"
    root.write_text(root.read_text().replace('"format": 1', '"format": 9'))
    miniature.create(path, overwrite=True).close()
    assert open_store(path).committed == 0


@pytest.mark.parametrize("content", ["thesis.txt", None])
def test_overwrite_does_not_remove_what_is_no_store(tmp_path, content):
    path = tmp_path / "home"
    if content:
        path.mkdir()
        (path / content).write_text("years of work")
    else:
        path.write_text("a file")
    with pytest.raises(Refusal, match="not a RouteLab store, so --overwrite will not remove it"):
        miniature.create(path, overwrite=True)
    assert path.exists()


def test_an_empty_folder_may_be_filled(tmp_path):
    miniature.create(tmp_path).close()
    assert open_store(tmp_path).committed == 0


@pytest.mark.parametrize("step", ["write_ids", "write_card", "create_rows", "sync_tree"])
def test_a_creation_that_fails_keeps_the_old_store(tmp_path, monkeypatch, step):
    path = miniature.complete(tmp_path / "s.zarr")
    before = fingerprint(path)

    def no_space(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(creation, step, no_space)
    with pytest.raises(Refusal, match=r"the disk is full: .*s\.zarr was not made"):
        miniature.create(path, overwrite=True)
    assert fingerprint(path) == before
    assert [child.name for child in tmp_path.iterdir()] == ["s.zarr"]


def test_other_errors_of_the_system_stay_errors(tmp_path, monkeypatch):
    def broken(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(files, "write_part", broken)
    with pytest.raises(OSError, match="Input/output"):
        miniature.create(tmp_path / "s.zarr")


def test_leftovers_of_a_killed_creation_do_not_matter(tmp_path):
    for name in (".s.zarr.new", ".s.zarr.old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "junk").write_text("")
    miniature.create(tmp_path / "s.zarr").close()
    assert [child.name for child in tmp_path.iterdir()] == ["s.zarr"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"images": 0, "ids": [], "labels": []}, "no image to capture"),
        ({"ids": ["twice"] * miniature.IMAGES}, "'twice' stands for 10 images"),
        ({"ids": ["\udcff", *miniature.IDS[1:]]}, "is not Unicode; rename the file"),
    ],
)
def test_images_that_cannot_be_stored_are_refused(tmp_path, change, says):
    with pytest.raises(Refusal, match=says):
        miniature.create(tmp_path / "s.zarr", **change)
    assert list(tmp_path.iterdir()) == []


def test_counts_that_differ_are_a_bug(tmp_path):
    with pytest.raises(ValueError, match="10 images, 1 ids and 10 labels"):
        miniature.create(tmp_path / "s.zarr", ids=["a"])
