import errno

import pytest

from routelab.store import files
from routelab.store.files import remove_unfinished, write_whole


def test_parts_are_written_in_order_and_replace_the_old_file(tmp_path):
    target = tmp_path / "a"
    target.write_bytes(b"old")
    write_whole(target, [b"one ", memoryview(b"two")])
    assert target.read_bytes() == b"one two"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    def no_space(file, part):
        file.write(part[:1])
        raise OSError(errno.ENOSPC, "No space left on device")

    target = tmp_path / "a"
    target.write_bytes(b"old")
    monkeypatch.setattr(files, "write_part", no_space)
    with pytest.raises(OSError, match="No space"):
        write_whole(target, [b"new"])
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"old")]


def test_unfinished_files_are_removed_at_any_depth(tmp_path):
    (tmp_path / "b").mkdir()
    for name in ("a.tmp", "b/c.0.tmp", "b/c.0"):
        (tmp_path / name).write_bytes(b"")
    remove_unfinished(tmp_path)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["c.0"]
