import subprocess
import sys

import pytest

from routelab.records import Refusal
from routelab.store.lock import WriterLock
from routelab.testing import planted_store


def test_one_writer_at_a_time(tmp_path):
    first = WriterLock(tmp_path)
    with pytest.raises(Refusal, match="another capture is writing"):
        WriterLock(tmp_path)
    first.release()
    with WriterLock(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_the_lock_dies_with_its_process(tmp_path):
    hold = (
        "import sys, pathlib, time; from routelab.store.lock import WriterLock;"
        "lock = WriterLock(pathlib.Path(sys.argv[1])); print('held', flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", hold, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(Refusal):
            WriterLock(tmp_path)
        process.kill()
    WriterLock(tmp_path).release()


def test_a_store_in_work_is_not_overwritten(tmp_path):
    path = planted_store(tmp_path / "s.zarr", "uniform", images=8, layers=1)
    with WriterLock(path), pytest.raises(Refusal, match="another capture"):
        planted_store(path, "uniform", images=8, layers=1, overwrite=True)
    planted_store(path, "healthy", images=8, layers=1, overwrite=True)
