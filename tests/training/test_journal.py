"""What is written down: lines that survive a torn end, and TensorBoard's scalars."""

import sys

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from routelab.records import Refusal
from routelab.training import Epoch, Update, read_events, train_run
from routelab.training.journal import Journal, cut_log, scalars
from tests.training.small_runs import small_config


def update(number, epoch):
    return Update(
        update=number,
        epoch=epoch,
        loss=1.0,
        parts={},
        accuracy=0.5,
        learning_rate=1.0,
        gradient_norm=1.0,
        gradient_norms={},
        images_per_second=1.0,
    )


def epoch(number):
    return Epoch(
        epoch=number,
        update=2 * number,
        loss=1.0,
        parts={},
        accuracy=0.5,
        gradient_norm=1.0,
        learning_rate=1.0,
        images_per_second=1.0,
    )


def test_a_log_is_cut_where_the_state_was_taken(tmp_path):
    log = tmp_path / "log.jsonl"
    events = [update(1, 1), update(2, 1), epoch(1), update(3, 2), update(4, 2)]
    journal = Journal(log)
    for event in events:
        journal.add(event)
    with log.open("a") as file:
        file.write('{"kind": "upd')
    assert read_events(log) == events
    assert cut_log(log, 3, 1) == [epoch(1)]
    assert read_events(log) == events[:4]
    cut_log(log, 2, 0)  # killed between the last update of an epoch and its record
    assert read_events(log) == events[:2]
    assert cut_log(tmp_path / "new.jsonl", 0, 0) == []


def test_every_number_becomes_a_scalar():
    nested = {"loss": 1.5, "routing": {"06": {"load": [0.25, 0.75]}}, "kind": "x"}
    assert list(scalars(nested)) == [
        ("loss", 1.5),
        ("routing/06/load/0", 0.25),
        ("routing/06/load/1", 0.75),
    ]


def test_tensorboard_has_what_the_log_has(tmp_path):
    config = small_config("epochs=1", "keep.tensorboard=true")
    history = train_run(config, tmp_path / "run")
    board = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    board.Reload()
    assert board.Scalars("epoch/loss")[0].value == pytest.approx(history.last.loss)
    assert [s.step for s in board.Scalars("update/parts/balance")] == list(range(1, 9))
    assert "epoch/routing/01/load/0" in board.Tags()["scalars"]


def test_without_tensorboard_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(Refusal, match=r"routelab\[training\]"):
        train_run(small_config("keep.tensorboard=true"), tmp_path / "run")
    assert not (tmp_path / "run").exists()
