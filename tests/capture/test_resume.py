import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from routelab.capture import CaptureOptions, Reporter, capture
from routelab.capture.pipeline import Pipeline
from routelab.records import Refusal
from routelab.store import columns, fingerprint, open_store, writer
from tests.capture.small import make_checkpoint, model_card


class Killed(BaseException):
    """Stands for SIGKILL inside the process: nothing that follows it may tidy up."""


class StopAfter(Reporter):
    """Ends the capture after some batches, as a kill or a signal would."""

    def __init__(self, batches, act):
        self.left, self.act = batches, act

    def advanced(self, images, total, committed):
        self.left -= 1
        if self.left == 0:
            self.act()


def kill():
    raise Killed


def options(checkpoint, images, out, **changes):
    usual = {"batch_size": 4, "shard": 8, "full": 30, "features": "tokens", "verify": True}
    return CaptureOptions(checkpoint=checkpoint, data=str(images), out=out, **usual | changes)


@pytest.fixture(scope="module")
def whole(checkpoints, images, tmp_path_factory):
    """Fingerprint of an unbroken capture by a router kind, made once."""
    folder, made = tmp_path_factory.mktemp("whole"), {}

    def of(kind="soft"):
        if kind not in made:
            made[kind] = capture(options(checkpoints(kind), images, folder / f"{kind}.zarr"))
        return fingerprint(made[kind].store)

    return of


@pytest.fixture
def often(monkeypatch):
    """Commits at every shard, not every few seconds."""
    monkeypatch.setattr(writer, "COMMIT_SECONDS", 0.0)


@pytest.mark.parametrize("kind", ["soft", "topk"])
def test_a_killed_capture_resumes_to_the_same_bytes(
    kind, checkpoints, images, tmp_path, often, whole
):
    broken = tmp_path / "broken.zarr"
    resume = False
    for batches in (1, 3, 2, 5):
        made = options(checkpoints(kind), images, broken, resume=resume)
        with pytest.raises(Killed):
            capture(made, StopAfter(batches, kill))
        resume = True
        assert not open_store(broken).card.complete
    assert open_store(broken).committed % 8 == 0
    report = capture(options(checkpoints(kind), images, broken, resume=True))
    assert report.status == "complete"
    assert fingerprint(broken) == whole(kind)


def test_a_kill_before_the_first_commit_loses_only_what_was_not_committed(
    checkpoints, images, tmp_path, whole
):
    broken = tmp_path / "broken.zarr"
    with pytest.raises(Killed):
        capture(options(checkpoints(), images, broken), StopAfter(5, kill))
    assert open_store(broken).committed == 0
    capture(options(checkpoints(), images, broken, resume=True))
    assert fingerprint(broken) == whole()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_finishes_the_batch_and_says_how_to_go_on(
    number, code, checkpoints, images, tmp_path, whole
):
    broken = tmp_path / "broken.zarr"
    before = signal.getsignal(number)
    report = capture(
        options(checkpoints(), images, broken),
        StopAfter(3, lambda: os.kill(os.getpid(), number)),
    )
    assert report.status == "interrupted"
    assert report.exit_code == code
    assert report.committed == open_store(broken).committed == 12
    assert report.resume.startswith("routelab capture ")
    assert f"--out {broken}" in report.resume
    assert "--resume" in report.resume
    assert signal.getsignal(number) is before
    capture(options(checkpoints(), images, broken, resume=True))
    assert fingerprint(broken) == whole()


def test_resuming_a_complete_store_changes_nothing(checkpoints, images, tmp_path):
    out = tmp_path / "s.zarr"
    first = capture(options(checkpoints(), images, out))
    before = fingerprint(out)
    (out / "state-50.npz").touch()  # as a kill before the very last step leaves it
    again = capture(options(checkpoints(), images, out, resume=True))
    assert again.status == "complete"
    assert again.certificate == first.certificate
    assert fingerprint(out) == before


@pytest.mark.parametrize(
    ("change", "field"),
    [({"batch_size": 8}, "batch_size"), ({"full": 20}, "full"), ({"layers": "1"}, "layers")],
)
def test_another_configuration_is_not_resumed(change, field, checkpoints, images, tmp_path, often):
    out = tmp_path / "s.zarr"
    with pytest.raises(Killed):
        capture(options(checkpoints(), images, out), StopAfter(4, kill))
    before = fingerprint(out)
    with pytest.raises(Refusal, match=field):
        capture(options(checkpoints(), images, out, resume=True, **change))
    assert fingerprint(out) == before


def test_another_checkpoint_is_not_resumed(checkpoints, images, tmp_path, often):
    out = tmp_path / "s.zarr"
    with pytest.raises(Killed):
        capture(options(checkpoints(), images, out), StopAfter(4, kill))
    other = make_checkpoint(tmp_path, "soft", change=lambda model: model.head.weight.data.zero_())
    with pytest.raises(Refusal, match="sha256"):
        capture(options(other, images, out, resume=True))
    assert model_card().architecture == open_store(out).card.model.architecture


def test_a_full_disk_loses_nothing_that_was_committed(
    checkpoints, images, tmp_path, often, monkeypatch, whole
):
    broken = tmp_path / "broken.zarr"
    real, written = columns.write_whole, []

    def full_after_a_while(path, parts):
        written.append(path)
        if len(written) > 100:
            raise OSError(28, "No space left on device")
        real(path, parts)

    with monkeypatch.context() as patch:
        patch.setattr(columns, "write_whole", full_after_a_while)
        with pytest.raises(Refusal, match=r"disk is full.*--resume"):
            capture(options(checkpoints(), images, broken))
    assert 0 < open_store(broken).committed < 50
    capture(options(checkpoints(), images, broken, resume=True))
    assert fingerprint(broken) == whole()


def test_a_failing_forward_pass_ends_the_writer_thread(checkpoints, images, tmp_path, monkeypatch):
    def fail(self, start, labels):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(Pipeline, "acquire", fail)
    with pytest.raises(RuntimeError, match="out of memory"):
        capture(options(checkpoints(), images, tmp_path / "s.zarr"))
    assert "routelab-writer" not in {thread.name for thread in threading.enumerate()}


def test_sigkill_at_random_moments_then_resume_gives_the_same_bytes():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.kill_resume", "--kills", "4", "--images", "120"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("4 kills")
    assert done.stdout.rstrip().endswith("every file equal")
