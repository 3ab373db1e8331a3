"""How does a file become whole or stay absent, whatever happens while it is written?

Bytes go to a temporary name, are forced to the disk, and take their final name in one step. zarr's
own local store renames too but never calls fsync, so a power loss can leave it empty files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

TEMPORARY = ".tmp"
"""Ending of a file that is being written; one that is found later was never finished."""

Part = bytes | memoryview


def write_whole(path: Path, parts: Iterable[Part]) -> None:
    """Write the parts one after the other to `path`, replacing it in one step.

    A reader, or a process that takes over after this one was killed, sees the old file or the new
    one. On an error (a full disk) the temporary file is removed and the old file is untouched.
    """
    temporary = path.with_name(path.name + TEMPORARY)
    try:
        with temporary.open("wb") as file:
            for part in parts:
                write_part(file, part)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_part(file: BinaryIO, part: Part) -> None:
    """Write one part behind the others."""
    file.write(part)


def sync_folder(folder: Path) -> None:
    """Force the names in a folder to the disk; a rename is safe only after this."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Force all files and folders below `folder`, and its own name, to the disk."""
    for parent, _, names in os.walk(folder):
        for name in names:
            sync_folder(Path(parent) / name)
        sync_folder(Path(parent))
    sync_folder(folder.parent)


def remove_unfinished(folder: Path) -> None:
    """Remove what a killed process left half written below `folder`."""
    for path in folder.rglob(f"*{TEMPORARY}"):
        path.unlink()
