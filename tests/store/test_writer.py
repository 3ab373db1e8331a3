import errno
from dataclasses import replace

import numpy as np
import pytest
import zarr

from routelab.records import Refusal, Result
from routelab.store import StoreWriter, files, fingerprint, open_store, writer
from tests.store import miniature
from tests.store.miniature import BATCH, CERTIFICATE, FULL, IDS, IMAGES, LABELS


@pytest.fixture
def eager(monkeypatch):
    """Commit at every shard boundary."""
    monkeypatch.setattr(writer, "COMMIT_SECONDS", 0.0)


def expected(section, name, images=IMAGES):
    """Rows of all batches."""
    batches = [miniature.batch(number) for number in range(IMAGES // BATCH)]
    if section == "images":
        return np.concatenate([b.images[name] for b in batches])[:images]
    return np.concatenate([getattr(b, section)["06"][name] for b in batches])[:images]


def test_everything_comes_back(tmp_path):
    store = open_store(miniature.complete(tmp_path / "s.zarr"))
    assert store.card.complete
    assert store.card.certificate == CERTIFICATE
    assert store.timing == {"seconds": 1.5}
    assert store.ids == IDS
    assert store.labels.tolist() == LABELS.tolist()
    assert store.predictions.tolist() == expected("images", "prediction").tolist()
    np.testing.assert_array_equal(store.probability, expected("images", "probability"))
    np.testing.assert_array_equal(store.thumbnails(), expected("images", "thumbnail", FULL))
    for name in ("profile", "hits", "pooled", "prefix_mass"):
        np.testing.assert_array_equal(store.table("06", name), expected("tables", name))
    codes = store.full_array("06", "logits")
    np.testing.assert_array_equal(codes, expected("full", "logits", FULL))
    assert store.total("06", "tokens") == IMAGES
    assert store.total("06", "batch_load").shape == (IMAGES // BATCH, 3)
    assert not list(store.path.glob("state-*"))


def test_a_store_that_is_being_written_shows_what_is_committed(tmp_path, eager):
    with miniature.create(tmp_path / "s.zarr") as writing:
        miniature.append_rest(writing, until=6)
        store = open_store(writing.path)
        assert (store.committed, writing.committed, store.full) == (4, 4, 4)
        np.testing.assert_array_equal(
            store.table("06", "profile"), expected("tables", "profile", 4)
        )
        assert store.total("06", "batch_load").shape == (2, 3)
        np.testing.assert_allclose(
            store.total("06", "class_mass").sum(), store.profile("06").sum(), rtol=1e-6
        )
        assert store.timing == {}
        writing.commit()
        assert open_store(writing.path).committed == 6


def test_commits_wait_for_the_clock(tmp_path):
    with miniature.create(tmp_path / "s.zarr") as writing:
        miniature.append_rest(writing)
        assert writing.committed == 0


def test_where_it_was_committed_does_not_show_in_the_bytes(tmp_path, monkeypatch):
    late = fingerprint(miniature.complete(tmp_path / "late.zarr"))
    monkeypatch.setattr(writer, "COMMIT_SECONDS", 0.0)
    early = fingerprint(miniature.complete(tmp_path / "early.zarr"))
    with miniature.create(tmp_path / "every.zarr") as writing:
        for number in range(IMAGES // BATCH):
            writing.append(miniature.batch(number))
            writing.commit()
        writing.finish(CERTIFICATE, {"seconds": 9.0})
    assert late == early == fingerprint(tmp_path / "every.zarr")


def test_the_store_is_plain_zarr_for_everybody(tmp_path):
    path = miniature.complete(tmp_path / "s.zarr")
    open_store(path).save_result(Result(name="load", quantities={}, n=10))
    nodes = dict(zarr.open_group(path, mode="r").members(max_depth=None))
    arrays = {name for name, node in nodes.items() if isinstance(node, zarr.Array)}
    assert {"images/id", "layers/06/logits", "totals/07/batch_load"} <= arrays
    for name in arrays:
        assert nodes[name][...].shape == nodes[name].shape
    assert nodes["images/id"][...].tolist() == IDS
    assert nodes["results/load"].attrs["n"] == 10


def test_a_batch_that_lacks_an_array_is_a_bug(tmp_path):
    with (
        miniature.create(tmp_path / "s.zarr") as writing,
        pytest.raises(ValueError, match="must bring layers/06/pooled"),
    ):
        writing.append(miniature.without(miniature.batch(0), "pooled"))


def test_rows_of_another_number_or_shape_are_a_bug(tmp_path):
    first = miniature.batch(0)
    short = replace(first, images={name: rows[:1] for name, rows in first.images.items()})
    wide = replace(first, images=first.images | {"prediction": np.zeros((BATCH, 2), np.int32)})
    with (
        miniature.create(tmp_path / "a.zarr") as writing,
        pytest.raises(ValueError, match="images/prediction has 1 rows, 2 are due"),
    ):
        writing.append(short)
    with (
        miniature.create(tmp_path / "b.zarr") as writing,
        pytest.raises(ValueError, match=r"rows of shape \(2,\) given, \(\) expected"),
    ):
        writing.append(wide)


def test_finishing_early_is_a_bug(tmp_path):
    with miniature.create(tmp_path / "s.zarr") as writing:
        miniature.append_rest(writing, until=4)
        with pytest.raises(ValueError, match="4 of 10 images were appended"):
            writing.finish(CERTIFICATE)


def test_a_full_disk_says_what_is_safe_and_how_to_go_on(tmp_path, monkeypatch, eager):
    reference = fingerprint(miniature.complete(tmp_path / "reference.zarr"))
    path = tmp_path / "s.zarr"
    real, room = files.write_part, [100]

    def limited(file, part):
        room[0] -= 1
        if room[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(file, part)

    with miniature.create(path) as writing, monkeypatch.context() as patch:
        patch.setattr(files, "write_part", limited)
        with pytest.raises(
            Refusal, match=r"the disk is full: 4 of 10 images are safe in .*--resume"
        ):
            miniature.append_rest(writing)
    assert open_store(path).committed == 4
    assert not list(path.rglob("*.tmp"))
    miniature.resume(path)
    assert fingerprint(path) == reference


def test_a_layer_refused_on_the_way_leaves_the_others(tmp_path, eager):
    with miniature.create(tmp_path / "s.zarr") as writing:
        writing.append(miniature.batch(0))
        writing.refuse_layer("07", "its router gave NaN")
        for number in (1, 2):
            writing.append(miniature.batch(number))
        writing.commit()
    with StoreWriter.resume(writing.path, miniature.card()) as resumed:
        assert resumed.committed == 6
        for number in range(3, IMAGES // BATCH):
            resumed.append(miniature.batch(number))
        resumed.finish(CERTIFICATE)
    store = open_store(tmp_path / "s.zarr")
    assert [spec.key for spec in store.layers] == ["06"]
    assert not (store.path / "layers" / "07").exists()
    assert not (store.path / "totals" / "07").exists()
    with pytest.raises(Refusal, match=r"layer 07 was left out of .*: its router gave NaN"):
        store.profile("07")


def test_the_writer_holds_one_shard_of_each_array(tmp_path):
    with miniature.create(tmp_path / "s.zarr") as writing:
        sizes = {key: column._buffer.shape[0] for key, column in writing._columns.items()}
        assert sizes["06", "logits"] == 4
        assert sizes["06", "profile"] == IMAGES
