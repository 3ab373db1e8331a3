import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

from routelab.records import Refusal
from routelab.store import (
    StoreWriter,
    files,
    fingerprint,
    layout,
    open_store,
    verify_store,
    writer,
)
from tests.store import miniature
from tests.store.miniature import BATCH, CERTIFICATE, IMAGES

STEPS = [
    (files, "write_part"),
    (Path, "replace"),
    (Path, "unlink"),
    (Path, "rename"),
    (os, "fsync"),
    (shutil, "rmtree"),
]
"""What changes the disk; each call is a moment at which a process may be killed."""


ONE_LAYER = miniature.card(layers=(6,))


class Killed(BaseException):
    pass


class Killer:
    """Lets `left` steps pass, tears the next write, and lets nothing through after."""

    def __init__(self, monkeypatch, left):
        self.left = left
        self.taken = 0
        for owner, name in STEPS:
            monkeypatch.setattr(owner, name, self._guard(getattr(owner, name), name))

    def _guard(self, real, name):
        def step(*arguments, **options):
            if self.left == 0 and name == "write_part":
                file, part = arguments
                file.write(part[:5])
            if self.left <= 0:
                self.left = -1
                raise Killed
            self.left -= 1
            self.taken += 1
            return None if name == "fsync" else real(*arguments, **options)

        return step


@pytest.fixture
def quick(monkeypatch):
    """Commit at every boundary, and let tables have more than one shard."""
    monkeypatch.setattr(writer, "COMMIT_SECONDS", 0.0)
    monkeypatch.setattr(layout, "TABLE_ROWS", 6)


def go_on(path):
    with StoreWriter.resume(path, ONE_LAYER) as writing:
        miniature.append_rest(writing)
        writing.finish(CERTIFICATE, {"seconds": 1.0})


def rows_of(number):
    return miniature.batch(number).tables["06"]["profile"]


def check_committed(path):
    """The store opens, and holds exactly the rows that it says it holds."""
    store = open_store(path)
    assert store.committed % BATCH == 0
    assert store.ids == miniature.IDS[: store.committed]
    whole = [rows_of(number) for number in range(store.committed // BATCH)]
    np.testing.assert_array_equal(
        store.table("06", "profile"), np.concatenate([np.empty((0, 3), np.float32), *whole])
    )
    assert store.total("06", "tokens") == store.committed
    failed = [check for check in verify_store(store) if not check.passed]
    assert [check.name for check in failed] == ([] if store.card.complete else ["every image once"])
    return store


def test_a_capture_killed_at_any_step_is_whole_and_goes_on(tmp_path, quick):
    empty = tmp_path / "empty.zarr"
    miniature.create(empty, ONE_LAYER).close()
    reference = shutil.copytree(empty, tmp_path / "reference.zarr")
    with pytest.MonkeyPatch.context() as patch:
        killer = Killer(patch, 10**9)
        go_on(reference)
    steps, expected = killer.taken, fingerprint(reference)
    assert steps > 100
    seen = set()
    for step in range(0, steps, 7):
        path = shutil.copytree(empty, tmp_path / f"{step}.zarr")
        with pytest.MonkeyPatch.context() as patch:
            Killer(patch, step)
            with pytest.raises(Killed):
                go_on(path)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "fsync", lambda _: None)
            store = check_committed(path)
            seen.add((store.committed, store.card.complete))
            if store.card.complete:
                with pytest.raises(Refusal, match="complete"):
                    go_on(path)
            else:
                go_on(path)
        assert fingerprint(path) == expected, step
        shutil.rmtree(path)
    assert {committed for committed, _ in seen} == {0, 4, 8, IMAGES}


def test_a_creation_killed_at_any_step_leaves_the_old_store_or_the_new(tmp_path):
    old = miniature.complete(tmp_path / "old.zarr")
    fresh = miniature.create(tmp_path / "fresh.zarr")
    fresh.close()
    before, after = fingerprint(old), fingerprint(tmp_path / "fresh.zarr")
    with pytest.MonkeyPatch.context() as patch:
        killer = Killer(patch, 10**9)
        miniature.create(shutil.copytree(old, tmp_path / "count.zarr"), overwrite=True)
    for step in range(0, killer.taken, 9):
        path = shutil.copytree(old, tmp_path / f"{step}.zarr")
        with pytest.MonkeyPatch.context() as patch:
            Killer(patch, step)
            with pytest.raises(Killed):
                miniature.create(path, overwrite=True)
        kept = path if path.exists() else path.with_name(f".{path.name}.old")
        assert fingerprint(kept) in (before, after)


SCRIPT = """
    import sys, time
    from pathlib import Path
    from routelab.store import StoreWriter, writer
    from tests.store import miniature

    writer.COMMIT_SECONDS = 0.0
    path = Path(sys.argv[1])
    print("ready", flush=True)
    with StoreWriter.resume(path, miniature.card(layers=(6,))) as writing:
        for number in range(writing.committed // 2, 5):
            writing.append(miniature.batch(number))
            time.sleep(0.02)
        writing.finish(miniature.CERTIFICATE, {"seconds": 1.0})
"""


def test_sigkill(tmp_path):
    path = tmp_path / "s.zarr"
    expected = fingerprint(miniature.complete(tmp_path / "whole.zarr", ONE_LAYER))
    miniature.create(path, ONE_LAYER).close()
    for pause in (0.03, 0.08):
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(SCRIPT), str(path)],
            cwd=Path(__file__).parents[2],
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(pause)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        store = check_committed(path)
        if store.card.complete:
            break
    else:
        go_on(path)
    assert fingerprint(path) == expected
