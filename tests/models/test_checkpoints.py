import errno
import json
import pickle
import re

import pytest
import torch

from routelab.models import (
    build,
    card_path,
    file_sha256,
    load_checkpoint,
    read_card,
    read_weights,
    save_checkpoint,
)
from routelab.models import checkpoints as checkpoints_module
from routelab.records import Refusal, SoftRouting
from tests.models.small import ROUTERS, small_card


@pytest.fixture
def saved(tmp_path):
    """A checkpoint on disk: path, model and card."""
    card = small_card(SoftRouting())
    model = build(card, seed=0)
    path = tmp_path / "model.safetensors"
    return path, model, save_checkpoint(path, model, card)


@pytest.mark.parametrize("router", [None, *ROUTERS], ids=str)
def test_a_checkpoint_comes_back_with_its_card_and_outputs(tmp_path, router):
    card = small_card(router)
    model = build(card, seed=0)
    written = save_checkpoint(tmp_path / "model", model, card)
    loaded, read = load_checkpoint(tmp_path / "model.safetensors")
    assert read == written
    assert read.sha256 == file_sha256(tmp_path / "model.safetensors")
    pixels = torch.randn(2, 3, 32, 32)
    assert torch.equal(loaded(pixels), model(pixels))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.json", "model.safetensors"]


def test_tensors_of_a_torch_file_are_read_without_running_code(tmp_path):
    path = tmp_path / "weights.pth"
    torch.save({"state_dict": {"a": torch.ones(2)}}, path)
    assert read_weights(path)["a"].tolist() == [1, 1]


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("the pickle ran code",))


def test_a_pickle_that_would_run_code_is_refused_and_does_not_run(tmp_path):
    path = tmp_path / "bomb.pt"
    torch.save({"state_dict": Bomb()}, path)
    with pytest.raises(Refusal, match="would run code"):
        read_weights(path)
    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(Refusal, match=r"bomb\.pt"):
        read_weights(path)


def change_card(path, **changes):
    card = json.loads(card_path(path).read_text())
    card_path(path).write_text(json.dumps(card | changes))


DAMAGES = {
    "does not exist": lambda path: path.unlink(),
    "truncated or not a safetensors": lambda path: path.write_bytes(path.read_bytes()[:-1000]),
    "or not a safetensors file": lambda path: path.write_bytes(b""),
    "has no card model.json": lambda path: card_path(path).unlink(),
    "is not a model card": lambda path: card_path(path).write_text("{"),
    "not a model card": lambda path: card_path(path).write_text('{"a": 1}'),
    "SHA-256 differs": lambda path: change_card(path, sha256="0" * 64),
    "head.weight has shape": lambda path: change_card(path, sha256="", classes=["x"]),
}


@pytest.mark.parametrize("says", DAMAGES)
def test_a_damaged_checkpoint_is_refused_in_one_sentence(saved, says):
    path = saved[0]
    DAMAGES[says](path)
    with pytest.raises(Refusal, match=re.escape(says)) as refusal:
        load_checkpoint(path)
    assert "\n" not in str(refusal.value)


def test_a_file_of_another_kind_is_refused_by_its_name(saved):
    path = saved[0].rename(saved[0].with_suffix(".onnx"))
    with pytest.raises(Refusal, match=r"neither \.safetensors nor"):
        load_checkpoint(path)


def test_a_full_disk_keeps_the_checkpoint_that_was_there(saved, monkeypatch):
    path, model, card = saved
    before = path.read_bytes(), card_path(path).read_bytes()

    def full(*_args, **_kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoints_module, "save_file", full)
    with pytest.raises(Refusal, match="No space left"):
        save_checkpoint(path, model, card)
    assert (path.read_bytes(), card_path(path).read_bytes()) == before
    assert sorted(p.name for p in path.parent.iterdir()) == ["model.json", "model.safetensors"]


def test_a_folder_is_no_checkpoint(tmp_path):
    with pytest.raises(Refusal, match=r"is a folder; give the \.safetensors file"):
        read_card(tmp_path)
