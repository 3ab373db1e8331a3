"""How is the memory of freed tensors kept for the next ones? By a word to the C library."""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Options of `mallopt` (malloc.h)."""

_LARGEST, _LARGEST_BEFORE_GLIBC_2_35 = 1 << 30, 32 << 20
"""Bytes up to which a block comes from the heap that is kept; old versions refuse more."""


def keep_freed_memory() -> None:
    """Ask glibc to keep the memory of freed tensors for the next ones; elsewhere do nothing.

    By default the C library gives the top of its heap, and every block above 32 MB, back to the
    kernel when a tensor is freed, and the next one waits for zeroed pages again. On a CPU that is
    up to a tenth of a forward pass of a ViT-S, and a third of a training step of a layer whose
    expert weights (and so their gradients) take 150 MB.
    """
    adjust = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if adjust is not None:
        if not adjust(_MMAP_THRESHOLD, _LARGEST):
            adjust(_MMAP_THRESHOLD, _LARGEST_BEFORE_GLIBC_2_35)
        adjust(_TRIM_THRESHOLD, (1 << 31) - 1)
