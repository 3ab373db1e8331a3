"""Every wrong input: one sentence that names it and the way out, exit code 2, nothing written."""

import errno
import json
import os
import pickle
import shutil
import zipfile

import pytest
import torch
from PIL import Image

from routelab.models import load_checkpoint, moe_layers, save_checkpoint
from routelab.store import writer


@pytest.fixture
def refused(run, tmp_path):
    """Run `capture` and expect a refusal; its sentence."""

    def run_refused(checkpoint, *words, data="digits", wrote=False):
        out = tmp_path / "new.zarr"
        line = ["capture", checkpoint, "--data", data, "--out", out, "--device", "cpu", *words]
        code, stdout, stderr = run(*line)
        assert code == 2
        assert stdout == ""
        assert out.exists() == wrote
        sentences = stderr.strip().splitlines()
        assert wrote or len(sentences) == 1
        return sentences[-1]

    return run_refused


def save_images(folder, names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.effect_noise((40, 40), 90).save(folder / name)
    return folder


def test_a_missing_checkpoint(refused, tmp_path):
    said = refused(tmp_path / "nowhere.safetensors")
    assert "nowhere.safetensors does not exist" in said


def test_a_truncated_checkpoint(refused, checkpoints, tmp_path):
    for name in ("moe.safetensors", "moe.json"):
        shutil.copy(checkpoints / name, tmp_path / name)
    whole = (tmp_path / "moe.safetensors").read_bytes()
    (tmp_path / "moe.safetensors").write_bytes(whole[: len(whole) // 2])
    said = refused(tmp_path / "moe.safetensors")
    assert "truncated" in said
    assert "moe.safetensors" in said


class Harmful:
    """Would leave a file behind if it were unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("container", ["pickle", "zip"])
def test_a_pickle_that_would_run_code(refused, checkpoints, tmp_path, container):
    trap = tmp_path / "it-ran"
    path = tmp_path / "moe.pt"
    shutil.copy(checkpoints / "moe.json", tmp_path / "moe.json")
    if container == "zip":
        torch.save({"weight": torch.zeros(1), "more": Harmful(trap)}, path)
        assert zipfile.is_zipfile(path)
    else:
        path.write_bytes(pickle.dumps(Harmful(trap)))
    said = refused(path)
    assert "moe.pt" in said
    assert "would run code" in said
    assert not trap.exists()


def test_a_dense_checkpoint(refused, checkpoints):
    said = refused(checkpoints / "dense.safetensors")
    assert "dense" in said
    assert "blocks.0.mlp" in said


def test_another_number_of_classes(refused, checkpoints, tmp_path):
    folder = save_images(tmp_path / "images", ["cat/1.png", "dog/1.png"])
    said = refused(checkpoints / "moe.safetensors", data=folder)
    assert "10 classes" in said
    assert "2" in said


def test_an_empty_folder(refused, checkpoints, tmp_path):
    (tmp_path / "empty").mkdir()
    said = refused(checkpoints / "moe.safetensors", data=tmp_path / "empty")
    assert "empty holds no images" in said


def test_a_corrupt_image_among_good_ones(refused, run, checkpoints, tmp_path):
    folder = save_images(tmp_path / "images", ["1.jpg", "2.jpg", "3.jpg"])
    whole = (folder / "2.jpg").read_bytes()
    (folder / "2.jpg").write_bytes(whole[: len(whole) // 2])
    moe = checkpoints / "moe.safetensors"
    said = refused(moe, data=folder)
    assert "2.jpg" in said
    assert "--skip-corrupt" in said
    out = tmp_path / "skipped.zarr"
    line = ["capture", moe, "--data", folder, "--out", out, "--device", "cpu", "--json"]
    code, stdout, _ = run(*line, "--skip-corrupt")
    assert code == 0
    assert json.loads(stdout)["committed"] == 2


def test_a_layer_that_is_not_moe(refused, checkpoints):
    said = refused(checkpoints / "moe.safetensors", "--layers", "0")
    assert "layer 0 is not a MoE layer" in said
    assert "1, 2" in said


def test_a_store_that_exists(run, checkpoints, store, tmp_path):
    copy = shutil.copytree(store, tmp_path / "there.zarr")
    before = {p: p.stat().st_mtime_ns for p in copy.rglob("*")}
    line = ["capture", checkpoints / "moe.safetensors", "--data", "digits", "--out", copy]
    code, stdout, stderr = run(*line)
    assert (code, stdout) == (2, "")
    assert "there.zarr exists" in stderr
    assert "--resume" in stderr
    assert "--overwrite" in stderr
    assert {p: p.stat().st_mtime_ns for p in copy.rglob("*")} == before


@pytest.mark.parametrize("command", ["inspect", "analyze", "report", "verify"])
def test_a_store_of_another_format(run, store, tmp_path, command):
    copy = shutil.copytree(store, tmp_path / "old.zarr")
    root = copy / "zarr.json"
    text = json.loads(root.read_text())
    text["attributes"]["routelab"]["format"] += 1
    root.write_text(json.dumps(text))
    code, stdout, stderr = run(command, copy)
    assert (code, stdout) == (2, "")
    assert len(stderr.strip().splitlines()) == 1
    assert "format" in stderr
    assert not (tmp_path / "old.html").exists()


@pytest.mark.parametrize("command", ["inspect", "analyze", "report", "verify"])
def test_something_that_is_no_store(run, tmp_path, command):
    for path in (tmp_path / "missing.zarr", tmp_path):
        code, stdout, stderr = run(command, path)
        assert (code, stdout) == (2, "")
        assert str(path) in stderr
        assert len(stderr.strip().splitlines()) == 1


def test_a_full_disk(refused, checkpoints, monkeypatch):
    def no_room(*arguments, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(writer.StoreWriter, "append", _full_after_one(no_room))
    said = refused(checkpoints / "moe.safetensors", wrote=True)
    assert "new.zarr" in said
    assert "--resume" in said


def _full_after_one(no_room):
    append, calls = writer.StoreWriter.append, []

    def limited(self, batch):
        calls.append(batch)
        with pytest.MonkeyPatch.context() as patch:
            if len(calls) > 1:
                patch.setattr(os, "fsync", no_room)
                patch.setattr(os, "write", no_room)
            return append(self, batch)

    return limited


def test_nan_in_one_router_leaves_that_layer_out(run, checkpoints, tmp_path):
    model, card = load_checkpoint(checkpoints / "moe.safetensors")
    with torch.no_grad():
        moe_layers(model)["blocks.2.mlp"].router.gate.weight[0, 0] = float("nan")
    save_checkpoint(tmp_path / "nan.safetensors", model, card)
    out = tmp_path / "nan.zarr"
    line = ["capture", tmp_path / "nan.safetensors", "--data", "digits", "--out", out]
    code, stdout, stderr = run(*line, "--limit", "40", "--json")
    facts = json.loads(stdout)
    assert code == 0
    assert facts["committed"] == 40
    assert list(facts["plan"]["layers"]) == ["01"]
    assert "layer 02" in stderr
    _, shown, _ = run("inspect", out, "--json")
    assert list(json.loads(shown)["refused"]) == ["02"]


def test_refusals_are_json_too_where_json_was_asked_for(run, tmp_path):
    code, stdout, stderr = run("inspect", tmp_path / "x.safetensors", "--json")
    facts = json.loads(stdout)
    assert code == 2
    assert facts["status"] == "refused"
    assert facts["error"] == stderr.strip()
