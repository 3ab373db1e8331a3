"""`routelab recycle` from a checkpoint or a timm state dict; every wrong input one sentence."""

import json

import numpy as np
import pytest
import timm
import torch
from safetensors.torch import save_file

from routelab.models import lineage_arrays, load_checkpoint, save_checkpoint
from routelab.recycling import drift, open_source
from routelab.store import open_store
from tests.recycling.small import convnext_card, dense_source, vit_card


@pytest.fixture(scope="session")
def dense(tmp_path_factory):
    """Folder of `vit`, `wide` and `convnext` checkpoints; do not change them."""
    folder = tmp_path_factory.mktemp("dense")
    for name, card in {
        "vit": vit_card(),
        "wide": vit_card(48, 6),
        "convnext": convnext_card(),
    }.items():
        save_checkpoint(folder / f"{name}.safetensors", dense_source(card).model, card)
    return folder


@pytest.fixture
def recycled(run, dense, tmp_path):
    """Run `recycle` on a checkpoint of the folder; its JSON facts."""

    def run_recycle(name, *words):
        line = ["recycle", dense / f"{name}.safetensors", "--layers", "1-2", "--core", "4"]
        line += ["--core-ratio", "2", *words, "--out", tmp_path / "moe.safetensors", "--json"]
        code, stdout, stderr = run(*line)
        assert code == 0, stderr
        return json.loads(stdout)

    return run_recycle


LOOK = ("--images", "digits", "--limit", "40", "--compare", "16")


@pytest.mark.parametrize("method", ["random", "uniform", "copy"])
def test_methods_that_need_no_images(recycled, tmp_path, method):
    facts = recycled("vit", "--method", method)
    assert facts["cost"] is None
    assert facts["preservation"] == []
    _, card = load_checkpoint(tmp_path / "moe.safetensors")
    assert card.lineage.method == method
    assert card.lineage.body.sha256


@pytest.mark.parametrize("method", ["importance", "graph"])
def test_methods_that_look_at_images(recycled, method):
    facts = recycled("vit", "--method", method, *LOOK, "--router", "topk", "--k", "2")
    assert facts["cost"]["images"] == 40
    assert facts["card"]["lineage"]["images"] == 40
    assert [row["layer"] for row in facts["preservation"]] == ["00", "01", "02"]
    assert facts["preservation"][0]["cka"] == pytest.approx(1)
    assert facts["card"]["spec"]["router"]["renormalize"] is True


def test_the_jetpack_shape_in_small(recycled, tmp_path):
    words = ("--universal", "6", "--universal-ratio", "1", "--router", "sphero", "--slots", "2")
    facts = recycled("wide", "--width", "24", *words, *LOOK)
    assert [row["group"] for row in facts["lineage"]] == ["core", "universal"] * 2
    assert facts["lineage"][0]["available"] == 192
    assert facts["lineage"][0]["alignment"] == 1
    model, _ = load_checkpoint(tmp_path / "moe.safetensors")
    assert model.embed_dim == 24


def test_a_body_and_a_source(recycled, dense):
    facts = recycled("vit", "--source", dense / "wide.safetensors", "--method", "random")
    lineage = facts["card"]["lineage"]
    assert lineage["body"]["sha256"] != lineage["experts"]["sha256"]


def test_statistics_are_kept_and_used_again(recycled, tmp_path):
    words = (*LOOK, "--statistics", tmp_path / "acts.safetensors", "--overwrite")
    first, second = (recycled("vit", *words) for _ in range(2))
    assert [first["statistics_reused"], second["statistics_reused"]] == [False, True]
    assert first["card"]["sha256"] == second["card"]["sha256"]


def test_a_state_dict_of_timm(run, tmp_path):
    torch.manual_seed(0)
    vit = timm.create_model("vit_tiny_patch16_224", num_classes=5)
    save_file(vit.state_dict(), tmp_path / "tiny.safetensors")
    code, stdout, stderr = run(
        *("recycle", tmp_path / "tiny.safetensors", "--model", "vit_tiny_patch16_224"),
        *("--size", "32", "--method", "uniform", "--layers", "last 2", "--core", "2"),
        *("--out", tmp_path / "moe.safetensors", "--json"),
    )
    assert code == 0, stderr
    card = json.loads(stdout)["card"]
    assert card["transform"]["size"] == 32
    assert card["spec"]["layers"] == [10, 11]
    assert card["classes"] == ["0", "1", "2", "3", "4"]


def test_text_for_a_reader(run, dense, tmp_path):
    out = tmp_path / "moe.safetensors"
    code, stdout, _ = run(
        *("recycle", dense / "vit.safetensors", "--layers", "every other", "--core", "4"),
        *("--core-ratio", "2", *LOOK, "--out", out),
    )
    assert code == 0
    assert "recycled by importance from vit_tiny_patch16_224" in stdout
    assert "CKA with dense" in stdout
    assert "% forward" in stdout
    code, stdout, _ = run("inspect", out)
    assert code == 0
    assert "lineage" in stdout
    assert "48 of 96" in stdout


WRONG = [
    (("--width", "48"), "has width 24 and cannot give a model of width 48"),
    (("--core-ratio", "5"), "an expert of 120 hidden neurons cannot be recycled"),
    (("--layers", "2-9"), "is out of range"),
    (("--layers", "last 9"), "is out of range"),
    (("--layers", "some"), "is not a list of blocks"),
    (("--source", "convnext"), "a ViT and a ConvNeXt do not mix"),
    (("--method", "importance"), "looks at images to choose; give --images"),
    (("--method", "graph"), "looks at images to choose; give --images"),
    (("--method", "magic"), "--method 'magic' is refused"),
    (("--router", "magic"), "magic"),
    (("--images", "nowhere", "--method", "importance"), "does not exist"),
    (("--model", "vit_small_patch16_224"), "is not of architecture vit_small_patch16_224"),
    (("--model", "vit_smal_patch16_224"), "timm has no architecture"),
]


@pytest.mark.parametrize(("words", "says"), WRONG)
def test_wrong_inputs(run, dense, tmp_path, words, says):
    out = tmp_path / "moe.safetensors"
    words = [dense / "convnext.safetensors" if word == "convnext" else word for word in words]
    line = ["recycle", dense / "vit.safetensors", "--layers", "1", "--core", "2"]
    code, stdout, stderr = run(*line, "--method", "random", *words, "--out", out)
    assert code == 2
    assert stdout == ""
    assert says in stderr
    assert len(stderr.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def refused(run, path, out, *words):
    code, stdout, stderr = run("recycle", path, "--layers", "1", "--method", "copy", "--out", out)
    assert code == 2
    assert stdout == ""
    return stderr


def test_a_checkpoint_that_exists_is_kept(run, dense, tmp_path):
    out = tmp_path / "moe.safetensors"
    out.write_text("mine")
    assert "exists; replace it with --overwrite" in refused(run, dense / "vit.safetensors", out)
    assert out.read_text() == "mine"


def test_a_corrupt_checkpoint(run, dense, tmp_path):
    torn = tmp_path / "torn.safetensors"
    torn.write_bytes((dense / "vit.safetensors").read_bytes()[:500])
    torn.with_suffix(".json").write_text((dense / "vit.json").read_text())
    assert "truncated" in refused(run, torn, tmp_path / "moe.safetensors")
    assert not (tmp_path / "moe.safetensors").exists()


def test_a_file_without_a_card_or_a_name(run, dense, tmp_path):
    bare = tmp_path / "bare.safetensors"
    bare.write_bytes((dense / "vit.safetensors").read_bytes())
    assert "--model" in refused(run, bare, tmp_path / "moe.safetensors")


def test_a_moe_checkpoint_is_not_recycled(run, recycled, tmp_path):
    recycled("vit", "--method", "random")
    said = refused(run, tmp_path / "moe.safetensors", tmp_path / "more.safetensors")
    assert "is a MoE model already" in said


def test_a_checkpoint_that_is_missing(run, tmp_path):
    assert "does not exist" in refused(run, tmp_path / "no.safetensors", tmp_path / "moe")


def test_lineage_stays_through_training_and_capture(run, dense, recycled, tmp_path):
    facts = recycled("vit", "--method", "random", "--router", "topk")
    trained, store = tmp_path / "trained.safetensors", tmp_path / "moe.zarr"
    words = ("--data", "digits", "--epochs", "1", "--batch-size", "256", "--out", trained)
    assert run("train", tmp_path / "moe.safetensors", *words)[0] == 0
    model, card = load_checkpoint(trained)
    assert card.lineage.model_dump(mode="json") == facts["card"]["lineage"]
    moved = drift(model, card, open_source(dense / "vit.safetensors"))
    assert all((far > 0).all() and (far < 0.5).all() for far in moved.values())
    line = ("capture", trained, "--data", "digits", "--limit", "32", "--out", store)
    assert run(*line, "--device", "cpu")[0] == 0
    assert open_store(store).card.model.lineage == card.lineage


def test_a_capture_of_a_recycled_model_knows_what_its_experts_are_made_of(
    run, checkpoints, tmp_path
):
    moe, store = tmp_path / "moe.safetensors", tmp_path / "moe.zarr"
    words = ["--layers", "1,2", "--core", "3", "--core-ratio", "2", "--method", "uniform"]
    assert run("recycle", checkpoints / "dense.safetensors", *words, "--out", moe)[0] == 0
    limit = ["--data", "digits", "--limit", "8"]
    assert run("capture", moe, *limit, "--out", store)[0] == 0
    held = lineage_arrays(load_checkpoint(moe)[0])
    stored = open_store(store).lineage()
    assert stored.keys() == held.keys()
    for name, indices in held.items():
        np.testing.assert_array_equal(stored[name], indices)
    code, stdout, _ = run("inspect", store)
    assert code == 0
    assert "uniform from vit_tiny_patch16_224" in stdout
    assert "neurons of 6 experts in lineage/" in stdout
