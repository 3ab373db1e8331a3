"""How do two captures not write into one store? The first holds a lock that dies with it."""

from __future__ import annotations

import importlib
import os
import weakref
from pathlib import Path
from types import TracebackType

from routelab.records import Refusal


class WriterLock:
    """An advisory lock on a store's folder: no file is left behind, whatever ends the process.

    Where the system or the file system has no such locks, none is taken.

    Raises
    ------
    Refusal
        Another process, or another writer of this one, holds it.
    """

    def __init__(self, path: Path) -> None:
        try:
            fcntl = importlib.import_module("fcntl")
        except ImportError:  # Windows
            self._release = weakref.finalize(self, lambda: None)
            return
        folder = os.open(path, os.O_RDONLY)
        self._release = weakref.finalize(self, os.close, folder)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            raise Refusal(
                f"another capture is writing {path}; wait until it ends, or give another --out"
            ) from None
        except OSError:  # a file system without locks
            self.release()

    def release(self) -> None:
        """Let the next writer in."""
        self._release()

    def __enter__(self) -> WriterLock:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
