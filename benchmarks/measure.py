"""How are arms timed so that a busy machine does not decide the winner?

CPU time of the process (not wall time), arms run in turn so that drift hits all alike, the minimum
of several rounds. Ratios are between arms of one run only.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping

import torch


def interleaved(
    arms: Mapping[str, Callable[[], object]], *, rounds: int = 7, warmup: int = 1
) -> dict[str, float]:
    """Smallest CPU seconds of each arm over `rounds`, the arms run in turn in every round."""
    best = dict.fromkeys(arms, float("inf"))
    for round_number in range(warmup + rounds):
        for name, arm in arms.items():
            gc.collect()
            start = time.process_time()
            arm()
            seconds = time.process_time() - start
            if round_number >= warmup:
                best[name] = min(best[name], seconds)
    return best


def gemm_rate(size: int = 2048) -> float:
    """Multiply-add rate of this machine's own sgemm with the present threads, in FLOP/s."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    return 2 * size**3 / interleaved({"gemm": lambda: a @ b}, rounds=5)["gemm"]


def markdown(header: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown, the first column to the left and the rest to the right."""
    align = ["---"] + ["---:"] * (len(header) - 1)
    return "\n".join("| " + " | ".join(row) + " |" for row in [header, align, *rows])
