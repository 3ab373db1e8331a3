"""How does Ctrl-C stop a capture between two batches instead of inside one?"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """While open, SIGINT and SIGTERM are remembered in `received` instead of ending the process.

    A second signal of either kind acts as if this were not here, so that a hung forward pass can
    still be stopped. Outside the main thread, where Python takes no handlers, it does nothing.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._remember) for number in SIGNALS}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore()

    @property
    def exit_code(self) -> int:
        """128 + the signal's number (130, 143), or 0 when none has come."""
        return 0 if self.received is None else 128 + self.received

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
