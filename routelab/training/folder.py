"""What lies in a run directory, and may this run write there?"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from routelab.records import Refusal
from routelab.training.config import RunConfig, first_difference, read_config
from routelab.training.safely import remove_leftovers, write_text

CONFIG = "config.json"


class RunFolder:
    """Paths of a run directory: configuration, environment, log, checkpoints, states, snapshots."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config, self.environment = path / CONFIG, path / "environment.json"
        self.log, self.states = path / "log.jsonl", path / "states"
        self.last, self.best = path / "last.safetensors", path / "best.safetensors"
        self.snapshots, self.tensorboard = path / "snapshots", path / "tensorboard"

    def of_epoch(self, epoch: int) -> Path:
        """The checkpoint of one epoch that is kept."""
        return self.path / f"epoch-{epoch:04d}.safetensors"

    def snapshot(self, epoch: int) -> Path:
        """The routing snapshot after an epoch; 0: before any training."""
        return self.snapshots / f"epoch-{epoch:04d}.npz"

    def create(self, config: RunConfig, environment: dict[str, Any], *, overwrite: bool) -> None:
        """Begin a run in a folder of its own.

        Raises
        ------
        Refusal
            If there is something already, and it is not a run that may be overwritten.
        """
        self.check_free(overwrite=overwrite)
        if self.config.exists():
            replaced = self.path.with_name(f".{self.path.name}.replaced")
            shutil.rmtree(replaced, ignore_errors=True)
            self.path.rename(replaced)  # in one step: half a run is never left under its name
            shutil.rmtree(replaced)
        write_text(self.environment, json.dumps(environment, indent=2) + "\n")
        write_text(self.config, config.model_dump_json(indent=2) + "\n")

    def check_free(self, *, overwrite: bool) -> None:
        """Refuse a folder that holds anything, or with `overwrite` anything but a run."""
        if not self.path.exists() or (self.path.is_dir() and self._only_begun()):
            return
        if self.config.exists() and overwrite:
            return
        if self.config.exists():
            raise Refusal(
                f"run {self.path} exists; go on with it by --resume, or replace it by --overwrite"
            )
        raise Refusal(f"{self.path} exists and is no run directory; give another --out")

    def _only_begun(self) -> bool:
        """True if the folder holds nothing but what is written before a run's configuration."""
        beginnings = (self.environment.name, f".{self.environment.name}.", f".{CONFIG}.")
        return all(item.name.startswith(beginnings) for item in self.path.iterdir())

    def stored(self) -> Path:
        """The file with the configuration that the run was begun with."""
        if not self.config.exists():
            raise Refusal(f"there is no run in {self.path} to resume; leave --resume out")
        return self.config

    def reopen(self, config: RunConfig, environment: dict[str, Any]) -> None:
        """Go on with a run, and clear away what a killed process had begun.

        Raises
        ------
        Refusal
            No run, or one with another configuration, images or start: the first difference.
        """
        stored = read_config(self.stored())
        found = first_difference(stored, config)
        if found is not None:
            name, old, new = found
            raise Refusal(
                f"run {self.path} was begun with {name} = {old!r} and is to go on with {new!r}; "
                f"resume it with the configuration it was begun with, or start a new run"
            )
        begun = json.loads(self.environment.read_text())
        for fact in ("images_sha256", "start_sha256", "processes"):
            if begun.get(fact) != environment[fact]:
                raise Refusal(
                    f"run {self.path} was begun with other {fact.replace('_', ' ')} "
                    f"({begun.get(fact)}, now {environment[fact]}); restore them, or start a new "
                    "run"
                )
        remove_leftovers(self.path)
