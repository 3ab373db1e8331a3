import pickle

import numpy as np
import pytest

from routelab.data import open_data
from routelab.records import Refusal
from tests.data.picture_files import SMALL, save_picture


def test_a_torchvision_data_set_on_disk_is_read_by_name(tmp_path):
    for number, name in enumerate(["b", "a", "c"]):
        save_picture(tmp_path / name / "1.png", level=10 * number)
    data = open_data(f"torchvision:ImageFolder?root={tmp_path}", SMALL)
    assert data.classes == ("a", "b", "c")
    assert data.labels.tolist() == [0, 1, 2]
    assert data.ids[0] == "ImageFolder/test/000000"
    assert next(data.batches(3)).pixels.shape == (3, 3, 8, 8)


def test_a_timm_data_set_on_disk_is_read_by_name(tmp_path):
    save_picture(tmp_path / "validation" / "a" / "1.png")
    save_picture(tmp_path / "validation" / "b" / "1.png")
    data = open_data(f"timm:?root={tmp_path}", SMALL, split="validation")
    assert data.labels.tolist() == [0, 1]
    assert data.classes == ("a", "b")


def test_nothing_is_downloaded(tmp_path):
    with pytest.raises(Refusal, match="cannot be opened"):
        open_data(f"torchvision:CIFAR10?root={tmp_path}", SMALL)
    assert not list(tmp_path.iterdir())


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(Refusal, match="no data set 'CIFER10'; the nearest are CIFAR10"):
        open_data("torchvision:CIFER10?root=/nowhere", SMALL)


def test_the_cifar_layout_is_read_with_its_split(tmp_path, monkeypatch):
    from torchvision.datasets import CIFAR10

    base = tmp_path / CIFAR10.base_folder
    base.mkdir()
    entry = {"data": np.zeros((4, 3072), np.uint8), "labels": [3, 1, 0, 2]}
    (base / "test_batch").write_bytes(pickle.dumps(entry))
    (base / "batches.meta").write_bytes(pickle.dumps({"label_names": list("abcd")}))
    monkeypatch.setattr(CIFAR10, "_check_integrity", lambda self: True)
    monkeypatch.setattr("torchvision.datasets.cifar.check_integrity", lambda *a: True)
    data = open_data(f"torchvision:CIFAR10?root={tmp_path}", SMALL, split="test")
    assert data.labels.tolist() == [3, 1, 0, 2]
    assert data.card.split == "test"
