"""A study compares its arms on the same images, and goes on wherever it was broken off."""

import json
import shutil

import numpy as np
import pytest
import torch

from routelab.data import open_data
from routelab.models import load_checkpoint
from routelab.records import Refusal
from routelab.report import comparison_rows
from routelab.study import read_study, run_study
from routelab.study.starting import Origin
from routelab.training import Update, evaluate, read_events


def quiet(_):
    """Say nothing."""


@pytest.fixture(scope="module")
def done(text, tmp_path_factory):
    """A whole study; do not change it."""
    folder = tmp_path_factory.mktemp("studies")
    (folder / "study.toml").write_text(text)
    study = read_study(folder / "study.toml")
    return study, folder / "whole", run_study(study, folder / "whole", told=quiet)


def without_seconds(values):
    """A JSON object without what a clock measured."""
    return {key: value for key, value in values.items() if "seconds" not in key}


def timeless(path):
    """What a file of JSON says, but for seconds."""
    return json.loads(path.read_text(), object_hook=without_seconds)


def test_every_arm_and_seed_has_an_outcome_under_one_budget(done):
    _, out, comparison = done
    assert [(run.arm, run.seed) for run in comparison.runs] == [
        (arm, seed) for arm in ("dense", "scratch", "recycled") for seed in (0, 1)
    ]
    assert {card.updates for card in comparison.arms} == {5}
    assert {card.images for card in comparison.arms} == {16 * 5}
    assert comparison.classes == 10
    for run in comparison.runs:
        assert [point.updates for point in run.points] == [3, 5]
        assert [point.images for point in run.points] == [48, 80]
    assert not list(out.rglob("states"))
    assert not list(out.rglob("start.*"))


def test_accuracies_are_those_of_the_kept_checkpoints_on_all_held_out_images(done):
    _, out, comparison = done
    for run in comparison.runs:
        model, card = load_checkpoint(out / run.arm / f"seed-{run.seed}" / "run/last.safetensors")
        held_out = open_data("digits", card.transform, split="test")
        assert run.accuracy == evaluate(model, held_out).accuracy
        assert run.images == len(held_out) == 445


def test_costs_are_counted_from_the_model_and_norms_from_the_log(done):
    _, out, comparison = done
    for card in comparison.arms:
        assert card.training_flops == 3 * card.flops * card.images
    run = comparison.runs[-1]
    log = out / run.arm / f"seed-{run.seed}" / "run/log.jsonl"
    norms = [event.gradient_norm for event in read_events(log) if isinstance(event, Update)]
    assert len(norms) == 5
    assert run.gradients.mean == pytest.approx(np.mean(norms))
    assert run.gradients.largest == max(norms)
    dense, scratch, recycled = comparison.arms
    assert dense.parameters < scratch.parameters
    assert recycled.active < recycled.parameters
    assert (dense.start, scratch.start) == ("", "from scratch")
    assert recycled.start.startswith("recycled by importance from")


def test_arms_of_one_seed_start_with_the_same_classifier_and_body(done, tmp_path):
    study, _, _ = done
    origin = Origin(study)
    weights = {}
    for arm in study.arms:
        path = tmp_path / f"{arm}.safetensors"
        origin.start(study.arms[arm], study.config(arm, 1), path)
        weights[arm] = load_checkpoint(path)[0].state_dict()
    for name in ("head.weight", "head.bias", "blocks.0.mlp.fc1.weight", "blocks.1.attn.qkv.weight"):
        assert torch.equal(weights["recycled"][name], weights["dense"][name])
    name = "blocks.0.mlp.fc1.weight"
    assert not torch.equal(weights["scratch"][name], weights["dense"][name])


def test_a_study_broken_off_anywhere_ends_with_the_same_numbers(done, tmp_path):
    study, whole, _ = done
    out = tmp_path / "broken"
    begun = []

    def stop_at_third(says):
        begun.append(says)
        if len(begun) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_study(study, out, told=stop_at_third)
    run = out / "dense" / "seed-0"
    (run / "outcome.json").unlink()  # killed after the last update, before it was measured
    with pytest.raises(Refusal, match="begun with other arms, seeds or budget"):
        run_study(study.model_copy(update={"seeds": (0,)}), out, resume=True, told=quiet)
    with pytest.raises(Refusal, match="go on with --resume"):
        run_study(study, out, told=quiet)
    shutil.rmtree(run)
    run_study(study, out, resume=True, told=quiet)
    assert timeless(out / "comparison.json") == timeless(whole / "comparison.json")
    for path in whole.rglob("last.safetensors"):
        other = load_checkpoint(out / path.relative_to(whole))[0].state_dict()
        for name, weight in load_checkpoint(path)[0].state_dict().items():
            assert torch.equal(weight, other[name])


def test_differences_are_taken_seed_by_seed(done):
    _, _, comparison = done
    by = {(run.arm, run.seed): run.accuracy for run in comparison.runs}
    row = comparison_rows(comparison)[2]
    assert row.difference == pytest.approx(
        np.mean([by["recycled", seed] - by["dense", seed] for seed in (0, 1)])
    )


def test_folders_that_are_no_study_are_refused(done, tmp_path):
    study, _, _ = done
    with pytest.raises(Refusal, match=r"no study in .* to resume"):
        run_study(study, tmp_path / "none", resume=True, told=quiet)
    (tmp_path / "photo.jpg").touch()
    with pytest.raises(Refusal, match="holds no study"):
        run_study(study, tmp_path, told=quiet)


def test_a_missing_source_or_folder_is_refused_and_nothing_is_written(study_of, tmp_path):
    out = tmp_path / "out"
    for old, new in (('"digits"', '"nowhere"'), ('checkpoint = "', 'checkpoint = "nowhere')):
        study = study_of((old, new))
        with pytest.raises(Refusal, match="nowhere"):
            run_study(study, out, told=quiet)
        assert not out.exists()


def test_what_an_arm_refuses_is_named(study_of, tmp_path):
    layer = 'layers = [{}]\nrouter = {{ kind = "soft" }}'
    study = study_of((layer.format(1), layer.format(7)))
    with pytest.raises(Refusal, match=r"^arm scratch, seed 0: .*7"):
        run_study(study, tmp_path / "out", told=quiet)
