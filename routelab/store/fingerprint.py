"""Do two stores hold the same bytes?"""

from __future__ import annotations

import hashlib
from pathlib import Path

VOLATILE = ("timing", "results")
"""Folders that are no part of a capture's bytes."""


def fingerprint(path: str | Path) -> dict[str, str]:
    """SHA-256 of every file of a store by its path inside it, times and saved Results left out.

    Two captures of the same model and data by the same card have equal fingerprints, wherever they
    were interrupted.
    """
    root = Path(path)
    files = sorted(file for file in root.rglob("*") if file.is_file())
    names = {file: file.relative_to(root).as_posix() for file in files}
    return {
        name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file, name in names.items()
        if name.split("/")[0] not in VOLATILE
    }
