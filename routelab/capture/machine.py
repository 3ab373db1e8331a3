"""On which device, and in which precision, does the forward pass run?"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib.metadata import version

import torch

from routelab.records import Refusal


@dataclass(frozen=True)
class Machine:
    """A device and the dtype of autocast (float32: no autocast)."""

    device: torch.device
    dtype: torch.dtype

    def precision(self) -> AbstractContextManager[object]:
        """The context that every forward pass, and every replay, runs in."""
        if self.dtype == torch.float32:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.dtype)

    def synchronize(self) -> None:
        """Wait until the device has done all that it was given; for timing."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        elif self.device.type == "mps":
            torch.mps.synchronize()


def find_machine(device: str, dtype: str) -> Machine:
    """The machine by name; "auto" takes CUDA, else MPS, else the CPU.

    Raises
    ------
    Refusal
        If the device is unknown or not there.
    """
    if device == "auto":
        device = next((name for name in ("cuda", "mps") if _available(name)), "cpu")
    try:
        found = torch.device(device)
    except RuntimeError:
        raise Refusal(f'"{device}" is not a device; give auto, cpu, mps, cuda or cuda:0') from None
    if not _available(found.type):
        raise Refusal(f"device {device} is not available on this machine; give --device cpu")
    return Machine(found, getattr(torch, dtype))


def versions() -> dict[str, str]:
    """Versions of what decides the numbers."""
    return {name: version(name) for name in ("routelab", "torch", "timm", "numpy", "zarr")}


def _available(device: str) -> bool:
    if device == "cuda":
        return torch.cuda.is_available()
    if device == "mps":
        return torch.backends.mps.is_available()
    return device == "cpu"
