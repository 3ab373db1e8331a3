"""From what does a training that was killed go on? A file that proves itself whole.

A state's name holds its update and the first 16 hex digits of its SHA-256; it is loaded with the
unpickler that takes tensors and numbers only.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from routelab.models import file_sha256
from routelab.records import Refusal
from routelab.training.safely import write_whole
from routelab.training.trainer import Trainer

KEPT = 2
"""States that are kept: the newest, and the one before it in case it cannot be read."""

State = dict[str, Any]


def state_of(trainer: Trainer) -> State:
    """Everything that the next update depends on; every process must call it."""
    ranks, average = trainer.ranks, trainer.average
    cuda = trainer.device.type == "cuda"
    return {
        "model": trainer.model.state_dict(),
        "average": None if average is None else average.module.state_dict(),
        "optimizer": trainer.optimizer.state_dict(),
        "scaler": trainer.numbers.scaler.state_dict(),
        "position": [trainer.epoch, trainer.within, trainer.update],
        "sums": dict(trainer.sums),
        "gauge": trainer.gauge.totals(ranks),
        "generators": ranks.gather(trainer.generator.get_state()),
        "random": ranks.gather(torch.get_rng_state()),
        "cuda": ranks.gather(torch.cuda.get_rng_state(trainer.device) if cuda else None),
    }


def restore(trainer: Trainer, state: State) -> None:
    """Put a trainer where the state was taken; schedule and order follow from the position.

    Raises
    ------
    Refusal
        If the state is of another model or another number of processes.
    """
    rank = trainer.ranks.rank
    if len(state["random"]) != trainer.ranks.world:
        raise Refusal(
            f"the run was trained by {len(state['random'])} processes and goes on with "
            f"{trainer.ranks.world}; start as many as before"
        )
    try:
        trainer.model.load_state_dict(state["model"])
        if trainer.average is not None:
            trainer.average.module.load_state_dict(state["average"])
        trainer.optimizer.load_state_dict(state["optimizer"])
    except (RuntimeError, ValueError, TypeError) as error:
        first = str(error).splitlines()[-1].strip()
        raise Refusal(f"the run's state is of another model ({first}); start a new run") from error
    trainer.numbers.scaler.load_state_dict(state["scaler"])
    trainer.epoch, trainer.within, trainer.update = state["position"]
    trainer.sums = defaultdict(float, state["sums"])
    trainer.gauge.restore(state["gauge"], trainer.ranks)
    trainer.generator.set_state(state["generators"][rank])
    torch.set_rng_state(state["random"][rank])
    if state["cuda"][rank] is not None:
        torch.cuda.set_rng_state(state["cuda"][rank], trainer.device)


def write_state(folder: Path, state: State) -> Path:
    """Write a state whole, then remove all but the last two."""
    update = state["position"][2]
    path = write_whole(
        folder / f"{update:09d}.pt",
        lambda file: torch.save(state, file),
        named=lambda written: f"{update:09d}-{_digest(written)}.pt",
    )
    for old in sorted(folder.glob("*.pt"))[:-KEPT]:
        if old != path:
            old.unlink(missing_ok=True)
    return path


def newest_state(folder: Path, told: Callable[[str], None]) -> State | None:
    """The newest state that is whole; None where there is no state.

    Raises
    ------
    Refusal
        If there are states and none of them is whole.
    """
    paths = sorted(folder.glob("*.pt"), reverse=True)
    for path in paths:
        state = _read(path)
        if state is not None:
            return state
        told(f"{path} is damaged and was passed over")
    if paths:
        raise Refusal(f"no state in {folder} is whole; start the run anew with --overwrite")
    return None


def newest_update(folder: Path) -> int | None:
    """The update of the newest state, by its name."""
    updates = [int(path.name.split("-")[0]) for path in folder.glob("*.pt")]
    return max(updates, default=None)


def _digest(path: Path) -> str:
    """The first 16 hex digits of a file's SHA-256."""
    return file_sha256(path)[:16]


def _read(path: Path) -> State | None:
    """A state, or None if its bytes are not those that were written."""
    if _digest(path) != path.stem.split("-")[-1]:
        return None
    try:
        loaded: State = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise Refusal(f"state {path} holds more than tensors and numbers; not loaded") from error
    return loaded
