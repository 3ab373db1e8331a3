"""`routelab study` runs a study, prints its table, and answers wrong inputs in one sentence."""

import json

STUDY = """
name = "tiny"
baseline = "dense"
seeds = [0]
[source]
checkpoint = "{dense}"
[budget]
images = 40
[run.data]
source = "digits"
validation = "test"
limit = 40
[run.recipe]
batch_size = 20
[arms.dense]
[arms.upcycled]
moe = {{ layers = [1], router = {{ kind = "topk", k = 1 }}, groups = [{{ experts = 2 }}] }}
"""


def test_a_study_from_its_file_to_its_page(run, checkpoints, tmp_path):
    path, out = tmp_path / "study.toml", tmp_path / "out"
    path.write_text(STUDY.format(dense=checkpoints / "dense.safetensors"))
    code, stdout, stderr = run("study", path, "--out", out)
    assert code == 0, stderr
    assert "| upcycled | 1 |" in (out / "comparison.md").read_text()
    assert "upcycled" in stdout
    assert "run 2 of 2: upcycled, seed 0" in stderr
    assert "Study: tiny" in (out / "comparison.html").read_text()
    code, _, stderr = run("study", path, "--out", out)
    assert code == 2
    assert "--resume" in stderr
    code, stdout, _ = run("study", path, "--out", out, "--resume", "--json")
    assert code == 0
    assert [row["arm"] for row in json.loads(stdout)["rows"]] == ["dense", "upcycled"]


def test_a_missing_study_is_one_sentence(run, tmp_path):
    code, stdout, stderr = run("study", tmp_path / "none.toml", "--out", tmp_path / "out")
    assert (code, stdout) == (2, "")
    assert "cannot be read" in stderr
    assert len(stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()
