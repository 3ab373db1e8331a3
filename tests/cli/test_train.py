"""`routelab train` writes runs that can be resumed, and answers wrong inputs in one sentence."""

import json

import pytest
from PIL import Image

from routelab.models import read_card

RUN = ["train", "--data", "digits", "--set", "data.limit=40", "--set", "keep.probe=10"]


@pytest.fixture
def refused(run, tmp_path):
    """Run `train` and expect a refusal that writes nothing; its sentence."""

    def run_refused(*words, out=None):
        out = tmp_path / "run" if out is None else out
        before = sorted(tmp_path.rglob("*"))
        code, stdout, stderr = run("train", "--out", out, *words)
        assert (code, stdout) == (2, "")
        assert len(stderr.strip().splitlines()) == 1
        assert sorted(tmp_path.rglob("*")) == before
        return stderr.strip()

    return run_refused


def test_a_run_from_a_configuration_and_its_resumption(run, checkpoints, tmp_path):
    config = tmp_path / "run.toml"
    config.write_text(
        f"""
[start]
checkpoint = "{checkpoints / "dense.safetensors"}"

[moe]
layers = [1]
router = {{ kind = "topk", k = 1 }}
groups = [{{ experts = 2 }}]

[data]
source = "digits"
limit = 40
validation = "test"

[recipe]
base = "digits"
epochs = 1
auxiliary = {{ balance = 0.01 }}
"""
    )
    out = tmp_path / "run"
    code, stdout, _ = run("train", config, "--out", out, "--set", "batch_size=20", "--json")
    assert code == 0
    facts = json.loads(stdout)
    assert facts["recipe"]["batch_size"] == 20
    assert facts["recipe"]["learning_rate"] == 4e-3
    assert read_card(out / "last.safetensors").spec.layers == (1,)
    code, stdout, _ = run("train", "--resume", "--out", out)
    assert code == 0
    assert f"routelab eval {out / 'last.safetensors'}" in stdout
    code, _, stderr = run("train", config, "--out", out, "--resume")
    assert code == 2
    assert "begun with recipe.batch_size = 20 and is to go on with 32" in stderr
    code, _, stderr = run("train", "--resume", "--set", "epochs=3", "--out", out)
    assert code == 2
    assert "begun with recipe.epochs = 1 and is to go on with 3" in stderr
    code, _, stderr = run("train", config, "--out", out)
    assert code == 2
    assert "--resume, or replace it by --overwrite" in stderr


def test_every_key_and_recipe_is_explained(run):
    code, stdout, _ = run("train", "--keys")
    assert code == 0
    for word in ("recipe.mixing.mixup", "keep.state_updates", "--recipe jetpack-small"):
        assert word in stdout


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--recipe", "jetpack-imagnet"], "did you mean 'jetpack-imagenet'?"),
        (
            ["--set", "learning_rat=1"],
            "no key 'learning_rat'; did you mean 'recipe.learning_rate'?",
        ),
        (["--set", "recipe.mixing.mixp=1"], "'recipe.mixing.mixp'; did you mean 'mixup'?"),
        (["--set", "epochs"], "is not key=value"),
        (["--set", "epochs=many"], "recipe.epochs = 'many' is refused"),
        ([], "no images to train on"),
        (["--data", "digits"], "nothing to start from"),
        (["--resume"], "there is no run in"),
        (["missing.toml"], "missing.toml cannot be read"),
        (["--data", "digits", "--recipe", "digits", "--set", "precision=float16"], "nothing to"),
    ],
)
def test_wrong_settings(refused, words, sentence):
    assert sentence in refused(*words)


def test_wrong_data_and_checkpoints(refused, checkpoints, tmp_path):
    dense = checkpoints / "dense.safetensors"
    for name in ("only/1.png", "only/2.png"):
        (tmp_path / "one" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8)).save(tmp_path / "one" / name)
    assert "one class (only)" in refused(dense, "--data", tmp_path / "one", "--split", "")
    (tmp_path / "one" / "other").mkdir()
    said = refused(dense, "--data", tmp_path / "one", "--split", "")
    assert "the model has 10 classes and the data 2" in said
    words = [dense, "--data", "digits", "--set", "data.limit=40"]
    said = refused(*words, "--set", "start.architecture=vit_small_patch16_224")
    assert "is a vit_tiny_patch16_224, not the vit_small_patch16_224" in said
    said = refused(*words, "--set", "drop_last=true")
    assert "a batch of 64 images is more than the 40 there are" in said
    assert "float16 training needs CUDA" in refused(*words, "--set", "precision=float16")
    assert "needs a run directory" in refused(*words, "--resume", out=tmp_path / "x.safetensors")
    (tmp_path / "bad.toml").write_text("[recipe\n")
    assert "is not TOML" in refused(tmp_path / "bad.toml")
