import json
import shutil

import pytest

from routelab.models import read_card


def test_a_plan_is_printed_before_anything_is_written(run, checkpoints, tmp_path):
    out = tmp_path / "x.zarr"
    line = ["capture", checkpoints / "moe.safetensors", "--data", "digits", "--out", out]
    code, stdout, stderr = run(*line, "--dry-run")
    assert code == 0
    assert "nothing was written" in stdout
    assert "blocks.1.mlp" in stderr
    assert "files" in stderr
    assert not out.exists()
    code, stdout, _ = run(*line, "--dry-run", "--json", "--limit", "40")
    facts = json.loads(stdout)
    assert facts["status"] == "planned"
    assert facts["plan"]["images"] == 40


def test_inspect_shows_a_checkpoint(run, checkpoints):
    code, stdout, _ = run("inspect", checkpoints / "moe.safetensors")
    assert code == 0
    assert "blocks.2.mlp" in stdout
    assert "experts" in stdout
    facts = json.loads(run("inspect", checkpoints / "moe.safetensors", "--json")[1])
    assert facts["kind"] == "checkpoint"
    assert sum(facts["counts"]["parameters"].values()) == facts["counts"]["total"]
    assert [layer["depth"] for layer in facts["layers"]] == [1, 2]


def test_inspect_shows_a_dense_checkpoint(run, checkpoints):
    code, stdout, _ = run("inspect", checkpoints / "dense.safetensors")
    assert code == 0
    assert "dense" in stdout


def test_inspect_shows_a_store_and_its_certificate(run, store):
    code, stdout, _ = run("inspect", store)
    assert code == 0
    assert "complete, 64 of 64 images" in stdout
    assert "certificate: passed" in stdout
    facts = json.loads(run("inspect", store, "--json")[1])
    assert facts["committed"] == 64
    assert facts["passed"] is True


def test_verify_checks_a_store_and_its_model(run, checkpoints, store):
    code, stdout, _ = run("verify", store, "--checkpoint", checkpoints / "moe.safetensors")
    assert code == 0
    assert "checks passed" in stdout


def test_verify_fails_on_a_damaged_store(run, store, tmp_path):
    copy = shutil.copytree(store, tmp_path / "damaged.zarr")
    shard = copy / "layers/01/probs/c.0.0.0"
    content = bytearray(shard.read_bytes())
    content[10] ^= 0xFF
    shard.write_bytes(content)
    code, stdout, _ = run("verify", copy, "--json")
    assert code == 5
    facts = json.loads(stdout)
    assert facts["passed"] is False
    assert any("probs" in check["detail"] for check in facts["checks"] if not check["passed"])


def test_analyze_answers_and_reads_back(run, store, tmp_path):
    copy = shutil.copytree(store, tmp_path / "a.zarr")
    line = ["analyze", copy, "--only", "consistency", "--only", "load", "--permutations", "19"]
    code, stdout, _ = run(*line, "--json")
    assert code == 0
    first = json.loads(stdout)
    assert list(first["results"]) == ["consistency", "load"]
    contrast = first["results"]["consistency"]["quantities"]["contrast"]
    assert len(contrast["value"]) == 2
    assert json.loads(run(*line, "--json")[1]) == first
    _, stdout, _ = run(*line)
    assert "consistency (read back): " in stdout


def test_an_unknown_analysis_gets_the_nearest(run, store):
    code, _, stderr = run("analyze", store, "--only", "consistancy")
    assert code == 2
    assert "did you mean 'consistency'?" in stderr


def test_report_writes_one_file_beside_the_store(run, store, tmp_path):
    copy = shutil.copytree(store, tmp_path / "r.zarr")
    code, stdout, _ = run("report", copy)
    assert code == 0
    assert "r.html" in stdout
    assert (tmp_path / "r.html").read_text().lower().startswith("<!doctype html>")
    code, stdout, _ = run("report", copy, "--out", tmp_path / "deep" / "s.html", "--json")
    assert json.loads(stdout)["bytes"] == (tmp_path / "deep" / "s.html").stat().st_size


def test_train_makes_a_moe_checkpoint_from_a_dense_one(run, checkpoints, tmp_path):
    out = tmp_path / "soft.safetensors"
    words = ["train", checkpoints / "dense.safetensors", "--data", "digits", "--out", out]
    words += ["--router", "soft", "--layers", "1-2", "--experts", "2", "--slots", "2"]
    code, stdout, _ = run(*words, "--epochs", "1", "--validation", "test", "--json")
    assert code == 0
    assert json.loads(stdout)["epochs"][0]["validation"] > 0
    card = read_card(out)
    assert card.spec.layers == (1, 2)
    assert card.spec.router.kind == "soft"
    code, _, stderr = run(*words)
    assert code == 2
    assert "soft.safetensors exists" in stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "nothing to start from"),
        (["--architecture", "vit_tinny_patch16_224"], "no architecture named"),
        (["--router", "soft", "--architecture", "vit_tiny_patch16_224"], "--router needs --layers"),
        (["--epochs", "0"], "recipe.epochs = 0 is refused"),
        (["--cache-prefix"], "set trains to suffix or moe"),
    ],
)
def test_what_train_cannot_do_is_refused(run, tmp_path, words, sentence):
    out = tmp_path / "x.safetensors"
    code, _, stderr = run("train", "--data", "digits", "--out", out, *words)
    assert code == 2
    assert sentence in stderr
    assert not list(tmp_path.iterdir())
