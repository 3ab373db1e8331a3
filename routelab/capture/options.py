"""What can a user ask of a capture? One typed value, checked before any work."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Literal

from pydantic import Field

from routelab.records import Level, Record

Features = Literal["none", "pooled", "tokens"]
DType = Literal["float32", "bfloat16", "float16"]

FULL_BY_DEFAULT = 2000


class CaptureOptions(Record):
    """The options of `routelab capture`, by the names of its flags."""

    checkpoint: Path
    data: str = Field(description="an image folder, or a data set's name")
    out: Path
    split: str = Field(default="", description="of data sets that have several")
    layers: str = Field(default="all", description='block numbers: "6-11", "6,8" or "all"')
    level: Level = Field(default="full", description="full also keeps what profiles keeps")
    full: int | Literal["all"] = Field(
        default=FULL_BY_DEFAULT, description="images with full routing, from the first on"
    )
    features: Features = "pooled"
    batch_size: int = Field(default=32, ge=1)
    shard: int | None = Field(
        default=None, ge=1, description="images a shard; None: as many as make about 8 MB"
    )
    device: str = Field(default="auto", description="auto, cpu, mps, cuda or cuda:N")
    dtype: DType = Field(default="float32", description="of autocast; float32: none")
    limit: int | None = Field(default=None, ge=1, description="only the first images")
    skip_corrupt: bool = Field(default=False, description="leave unreadable images out")
    resume: bool = False
    overwrite: bool = False
    verify: bool = Field(default=False, description="replay several batches, not only the first")
    dry_run: bool = False
    budget: str | None = Field(default=None, description='largest size on disk, for example "20GB"')

    def command(self) -> str:
        """The command line that makes this store, wherever it stands and however often resumed.

        Only what decides the store's contents is in it, so that a store's card is the same for a
        broken-off and an unbroken run.
        """
        words = ["routelab", "capture", str(self.checkpoint), "--data", self.data]
        for name in ("split", "layers", "level", "full", "features", "batch_size", "shard"):
            words += self._flag(name)
        for name in ("device", "dtype", "limit", "budget"):
            words += self._flag(name)
        words += ["--skip-corrupt"] if self.skip_corrupt else []
        return shlex.join(words + (["--verify"] if self.verify else []))

    def resume_command(self) -> str:
        """The command line that goes on where this capture stopped."""
        return f"{self.command()} {shlex.join(['--out', str(self.out), '--resume'])}"

    def _flag(self, name: str) -> list[str]:
        """The flag and its value, or nothing where it has its default."""
        value = getattr(self, name)
        if value == type(self).model_fields[name].default:
            return []
        return [f"--{name.replace('_', '-')}", str(value)]
