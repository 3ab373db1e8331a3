"""Where do results and progress go? Results to stdout, everything else to stderr.

Rich leaves colour out where the stream is no terminal, or where NO_COLOR is set.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

EVERY = 10.0
"""Seconds between two lines of progress where stderr is no terminal."""


def out() -> Console:
    """The console of results."""
    return _console(stderr=False)


def err() -> Console:
    """The console of plans, progress and notes."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else 110
    return Console(file=stream, width=width, highlight=False, soft_wrap=False)


class Meter:
    """Progress over images on stderr: how many a second, and the time left."""

    def __init__(self, label: str) -> None:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        self.label, self.console = label, err()
        self.began, self.said, self.first = time.monotonic(), 0.0, 0
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )
        self.task = self.bar.add_task(label, total=None, rate="")

    def __enter__(self) -> Meter:
        self.bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.bar.stop()

    def update(self, done: int, total: int) -> None:
        """Take note that `done` of `total` images have passed."""
        now = time.monotonic()
        if not self.first:
            self.first, self.began = done, now
        elapsed = now - self.began
        rate = (done - self.first) / elapsed if elapsed > 0 else 0.0
        says = f"{rate:.0f} images/s" if rate >= 10 else f"{rate:.1f} images/s"
        if self.console.is_terminal:
            self.bar.update(self.task, completed=done, total=total, rate=says if rate else "")
        elif rate and (now - self.said >= EVERY or done == total):
            self.said = now
            left = (total - done) / rate
            self.console.print(f"{self.label}: {done} of {total}, {says}, {left:.0f} s left")

    def restart(self, label: str) -> None:
        """Begin again with another label: pace and time left are those of what follows."""
        self.label, self.began, self.said, self.first = label, time.monotonic(), 0.0, 0
        self.bar.update(self.task, description=label, completed=0, total=None, rate="")

    def note(self, sentence: str) -> None:
        """Print one sentence above the bar."""
        self.console.print(sentence, markup=False, soft_wrap=True)
