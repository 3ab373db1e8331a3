"""What did looking at the images cost? Seconds of the forward pass and of bookkeeping, memory."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import Field

from routelab.records import Record

GIB = 2**30


class Cost(Record):
    """Time and memory of one pass over images."""

    images: int = 0
    reading: float = Field(default=0.0, description="seconds spent waiting for decoded images")
    forward: float = Field(default=0.0, description="seconds in the model, without bookkeeping")
    bookkeeping: float = Field(default=0.0, description="seconds in sums and co-activation")
    peak_memory: float = Field(default=0.0, description="GiB, of the whole process until then")

    @property
    def forward_share(self) -> float:
        """The forward pass's share of forward and bookkeeping; NaN before anything ran."""
        total = self.forward + self.bookkeeping
        return self.forward / total if total > 0 else float("nan")


class Stopwatch:
    """Adds up the seconds that pass under each name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def time(self, name: str) -> Iterator[None]:
        """Count what happens inside under `name`."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began

    def __getitem__(self, name: str) -> float:
        return self.seconds.get(name, 0.0)


def peak_memory() -> float:
    """Largest resident size of this process so far, GiB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / GIB
