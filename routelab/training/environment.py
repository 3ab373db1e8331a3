"""On what machine, with which versions and which images was a run made?"""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from routelab.models import read_card
from routelab.records import DataCard
from routelab.training.config import RunConfig

PACKAGES = ("routelab", "torch", "timm", "numpy", "safetensors", "pydantic")


def environment_of(data: DataCard, config: RunConfig, processes: int) -> dict[str, Any]:
    """Facts that may explain a difference between two runs; the first three must not change."""
    start = config.start.checkpoint
    return {
        "images_sha256": data.sha256,
        "start_sha256": read_card(Path(start)).sha256 if start else "",
        "processes": processes,
        "images": data.images,
        "classes": list(data.classes),
        "command": sys.argv[1:],
        "device": _device_name(config.device),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": {name: _version(name) for name in PACKAGES},
    }


def _device_name(device: str) -> str:
    if device.startswith("cuda") and torch.cuda.is_available():
        return torch.cuda.get_device_name(torch.device(device))
    return platform.processor() or platform.machine()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
