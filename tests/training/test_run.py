"""A run directory holds what it promises, and a broken-off run ends as an unbroken one."""

import errno
import json
import os
import re
import shutil

import pytest
import torch

from routelab.models import load_checkpoint, save_checkpoint
from routelab.records import Refusal
from routelab.training import Epoch, Recipe, Update, read_events, train_run
from routelab.training.plan import Plan
from routelab.training.ranks import ALONE
from routelab.training.snapshots import read_snapshot
from tests.training.small_models import small_card, small_model
from tests.training.small_runs import in_child, killed_at_sync, small_config, weights_of

TIMES = re.compile(r'"(images_per_second|memory)": [0-9.e+]+')


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An unbroken run; do not change it."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    history = train_run(small_config(), out)
    return out, history


def same_weights(first, second):
    left, right = weights_of(first), weights_of(second)
    return all(
        torch.equal(left[file][name], right[file][name]) for file in left for name in left[file]
    )


def test_a_run_directory_holds_config_environment_log_checkpoints_and_states(whole):
    out, history = whole
    assert json.loads((out / "config.json").read_text()) == small_config().model_dump(mode="json")
    environment = json.loads((out / "environment.json").read_text())
    assert environment["images"] == 60
    assert torch.__version__.startswith(environment["versions"]["torch"])
    events = read_events(out / "log.jsonl")
    assert [e.update for e in events if isinstance(e, Update)] == list(range(1, 17))
    assert tuple(e for e in events if isinstance(e, Epoch)) == history.epochs
    model, card = load_checkpoint(out / "last.safetensors")
    assert card.spec.layers == (1,)
    assert card.metrics["validation_accuracy"] == history.last.validation
    assert [p.name.split("-")[0] for p in sorted((out / "states").iterdir())] == [
        "000000015",
        "000000016",
    ]
    assert not list(out.rglob("*.partial"))
    assert not model.training


def test_the_log_says_what_routers_and_gradients_did(whole):
    _, history = whole
    epoch = history.last
    assert set(epoch.parts) == {"cross_entropy", "balance"}
    assert set(epoch.gradient_norms) == {"router", "experts", "rest"}
    assert set(epoch.routing) == {"01"}
    routed = epoch.routing["01"]
    assert sum(routed.load) == pytest.approx(1)
    assert routed.dropped == 0
    assert 0 < routed.load_entropy <= 1.0987
    assert epoch.memory > 0


def test_snapshots_show_the_same_images_over_training(whole):
    out, _ = whole
    before, after = (read_snapshot(out / f"snapshots/epoch-000{n}.npz") for n in (0, 2))
    assert before["01/first"].shape == (20, 5)
    assert torch.tensor(before["01/agreement"]).isnan()
    assert 0 <= after["01/agreement"] <= 1
    assert after["01/load"].sum() == pytest.approx(1)
    assert after["01/class_mass"].shape == (10, 3)
    assert after["class_count"].sum() == 20
    assert (before["labels"] == after["labels"]).all()


@pytest.mark.parametrize("kills", [(3, 1), (6, 9), (13, 12, 7)])
def test_a_killed_run_ends_with_the_weights_of_an_unbroken_one(whole, tmp_path, kills):
    out, config = tmp_path / "broken", small_config()
    for number in kills:
        resume = (out / "config.json").exists()
        killed = killed_at_sync(number, lambda again=resume: train_run(config, out, resume=again))
        assert killed
    train_run(config, out, resume=(out / "config.json").exists())
    assert same_weights(whole[0], out)
    assert not list(out.rglob("*.partial"))
    logs = [TIMES.sub("", (run / "log.jsonl").read_text()) for run in (whole[0], out)]
    assert logs[0] == logs[1]
    for name in ("epoch-0001.npz", "epoch-0002.npz"):
        first, second = (read_snapshot(run / "snapshots" / name) for run in (whole[0], out))
        assert all((first[key] == second[key]).all() for key in first)


def test_a_run_ends_after_its_updates_in_the_middle_of_an_epoch(tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    config = small_config(updates=11)  # an epoch of 60 images in batches of 8 is 8 updates
    history = train_run(config, whole)
    assert [(epoch.epoch, epoch.update) for epoch in history.epochs] == [(1, 8), (2, 11)]
    assert history.last.learning_rate < 1e-4
    for number in (9, 14):
        resume = (broken / "config.json").exists()
        killed_at_sync(number, lambda again=resume: train_run(config, broken, resume=again))
    train_run(config, broken, resume=True)
    assert same_weights(whole, broken)


@pytest.mark.parametrize(("updates", "epochs"), [(1, 1), (8, 1), (9, 2), (40, 5)])
def test_epochs_follow_from_updates(updates, epochs):
    plan = Plan.of(Recipe(batch_size=8, updates=updates), 60, ALONE)
    assert plan.epochs == epochs
    assert sum(plan.updates_in(epoch) for epoch in range(1, epochs + 1)) == updates
    assert plan.images_after(9) == 68
    accumulated = Plan.of(Recipe(batch_size=8, accumulation=3), 60, ALONE)
    assert [accumulated.images_after(n) for n in range(5)] == [0, 24, 48, 60, 84]


def test_a_damaged_state_is_passed_over_for_the_one_before(whole, tmp_path):
    out = tmp_path / "torn"
    shutil.copytree(whole[0], out)
    newest = max((out / "states").iterdir())
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes(content)
    told = []
    train_run(small_config(), out, resume=True, told=told.append)
    assert told == [f"{newest} is damaged and was passed over"]
    assert same_weights(whole[0], out)
    for path in (out / "states").iterdir():
        path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(Refusal, match=r"no state in .* is whole"):
        train_run(small_config(), out, resume=True, told=told.append)


@pytest.mark.parametrize(("room", "safe"), [(12, 6), (17, 6), (20, 8)])
def test_a_full_disk_keeps_the_last_good_state_and_says_so(
    whole, tmp_path, monkeypatch, room, safe
):
    out = tmp_path / "full"
    fsync, calls = os.fsync, []

    def no_room(handle):
        calls.append(handle)
        if len(calls) > room:
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", no_room)
        with pytest.raises(Refusal, match=f"disk is full .* update {safe} is kept: free space"):
            train_run(small_config(), out)
    assert not list(out.rglob("*.partial"))
    train_run(small_config(), out, resume=True)
    assert same_weights(whole[0], out)


def test_another_configuration_or_an_existing_run_is_refused(whole, tmp_path):
    out, _ = whole
    before = {p: p.stat().st_mtime_ns for p in out.rglob("*")}
    with pytest.raises(Refusal, match=r"begun with recipe.learning_rate = 0.001 and .* 0.002"):
        train_run(small_config("learning_rate=2e-3"), out, resume=True)
    with pytest.raises(Refusal, match="--resume, or replace it by --overwrite"):
        train_run(small_config(), out)
    assert {p: p.stat().st_mtime_ns for p in out.rglob("*")} == before
    with pytest.raises(Refusal, match=r"no run in .* to resume"):
        train_run(small_config(), tmp_path, resume=True)
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(Refusal, match="is no run directory"):
        train_run(small_config(), tmp_path, overwrite=True)


def test_other_images_or_another_start_are_refused(tmp_path):
    card = small_card()
    start = tmp_path / "start.safetensors"
    save_checkpoint(start, small_model(), card)
    words = [f"start.checkpoint={start}", "epochs=1", "moe=none", "auxiliary={}"]
    train_run(small_config(*words), tmp_path / "run")
    save_checkpoint(start, small_model(seed=1), card)
    with pytest.raises(Refusal, match="begun with other start sha256"):
        train_run(small_config(*words), tmp_path / "run", resume=True)


def test_overwrite_begins_anew_and_every_nth_epoch_can_be_kept(tmp_path):
    out = tmp_path / "run"
    train_run(small_config("epochs=1"), out)
    config = small_config("keep.epochs=2", "keep.snapshots=0")
    train_run(config, out, overwrite=True)
    assert (out / "epoch-0002.json").exists()
    assert not (out / "epoch-0001.json").exists()
    assert not (out / "snapshots").exists()


def test_a_finished_run_resumed_changes_nothing(whole, tmp_path):
    out = tmp_path / "done"
    shutil.copytree(whole[0], out)
    history = train_run(small_config(), out, resume=True)
    assert history.epochs == whole[1].epochs
    assert same_weights(whole[0], out)
    assert not in_child(lambda: None)
