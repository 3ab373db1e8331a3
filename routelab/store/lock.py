"""How do two captures not write into one store? The first holds a lock that dies with it."""

from __future__ import annotations

import contextlib
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
        self._held = contextlib.ExitStack()
        try:
            fcntl = importlib.import_module("fcntl")
        except ImportError:  # Windows
            return
        folder = os.open(path, os.O_RDONLY)
        self._held.callback(os.close, folder)
        weakref.finalize(self, self._held.close)  # a writer that nobody closed
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
        self._held.close()

    def __enter__(self) -> WriterLock:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
