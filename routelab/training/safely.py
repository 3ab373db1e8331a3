"""How does a file appear whole or not at all, even if power or space runs out?"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

PARTIAL = ".partial"
FULL = (errno.ENOSPC, errno.EDQUOT)


def write_whole(
    path: Path,
    write: Callable[[BinaryIO], object],
    *,
    named: Callable[[Path], str] | None = None,
) -> Path:
    """Write a file under another name, flush it to disk and put it in place in one step.

    Parameters
    ----------
    path
        Where it is to stand.
    write
        Writes the content.
    named
        Makes its name of the finished file, where that depends on the content.

    Raises
    ------
    OSError
        Where it could not be written; what stood there before stays, and nothing is left over.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}{PARTIAL}")
    try:
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        if named is not None:
            path = path.with_name(named(temporary))
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
    return path


def write_text(path: Path, text: str) -> None:
    """Write a text file whole."""
    write_whole(path, lambda file: file.write(text.encode()))


def sync_folder(folder: Path) -> None:
    """Make sure that a rename in a folder outlives a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_leftovers(folder: Path) -> None:
    """Remove what a killed process had begun to write."""
    for left in folder.rglob(f".*{PARTIAL}"):
        left.unlink(missing_ok=True)


def is_full(error: BaseException) -> bool:
    """True if a disk or a quota is full, also where torch has wrapped the reason."""
    while True:
        if isinstance(error, OSError) and error.errno in FULL:
            return True
        deeper = error.__cause__ or error.__context__
        if deeper is None:
            return "No space left" in str(error)
        error = deeper
