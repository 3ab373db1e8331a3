"""How does a run go from its configuration to checkpoints, whatever interrupts it?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from routelab.data import Images, InMemory, in_memory, open_data
from routelab.models import keep_freed_memory
from routelab.records import ModelCard, Refusal
from routelab.training.carrying import carry_over
from routelab.training.config import RunConfig
from routelab.training.environment import environment_of
from routelab.training.folder import RunFolder
from routelab.training.history import History
from routelab.training.journal import check_tensorboard
from routelab.training.keeper import Keeper, Progress, Told
from routelab.training.loop import check_labels, pictured, train_to
from routelab.training.parameters import prepare
from routelab.training.ranks import Ranks, joined, own_device
from routelab.training.safely import is_full
from routelab.training.starting import start_run
from routelab.training.state import newest_update
from routelab.training.trainer import Trainer


class _Prepared(NamedTuple):
    """Trainer, card of its model, images to train on, and to validate on."""

    trainer: Trainer
    card: ModelCard
    data: Images | InMemory
    validation: Images | InMemory | None


def train_run(
    config: RunConfig,
    out: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
    told: Told = print,
) -> History:
    """Train by a configuration into a run directory; under torchrun, as one of its processes.

    Parameters
    ----------
    config
        Everything that decides the outcome.
    out
        The run directory: `config.json`, `environment.json`, `log.jsonl`, `last` and `best`
        checkpoints with their cards, states to go on from, routing snapshots.
    resume
        Go on from the newest state. A run on a CPU then ends with the weights, bit for bit, that it
        would have had unbroken.
    overwrite
        Replace a run that is there.
    progress
        Told of images done and in all, after each update.
    told
        Told what a user should know, in sentences.

    Raises
    ------
    Refusal
        Anything in configuration, data or folder that a user can mend; a full disk, with the update
        that is safe.
    """
    folder = RunFolder(out)
    device = torch.device(own_device(config.device))
    keep_freed_memory()
    with joined(config.device) as ranks, _own_random_state(device):
        if ranks.first and not resume:
            folder.check_free(overwrite=overwrite)
        if config.keep.tensorboard:
            check_tensorboard()
        trainer, card, data, validation = _prepared(config, device, ranks)
        if ranks.first:
            source = data.images if isinstance(data, InMemory) else data
            environment = environment_of(source.card, config, ranks.world)
            if resume:
                folder.reopen(config, environment)
            else:
                folder.create(config, environment, overwrite=overwrite)
        ranks.wait()
        keeper = Keeper(config, folder, trainer, card, data, validation, progress, told)
        try:
            return keeper.go(resume=resume)
        except (OSError, RuntimeError, Refusal) as error:
            if not is_full(error):
                raise
            raise Refusal(_full_disk(folder)) from error


def _prepared(config: RunConfig, device: torch.device, ranks: Ranks) -> _Prepared:
    """Everything that a run needs, checked."""
    model, card = start_run(config)
    data, validation = _images(config, card)
    check_labels(model, data)
    prepare(model, config.recipe)
    torch.manual_seed(config.recipe.seed + ranks.rank)
    drawn = pictured(data, config.recipe, workers=config.data.workers)
    trainer = Trainer(model.to(device), drawn, config.recipe, device=device, ranks=ranks)
    if config.start.optimizer:
        carry_over(Path(config.start.optimizer), trainer.model, trainer.optimizer)
    return _Prepared(trainer, card, data, validation)


@contextmanager
def _own_random_state(device: torch.device) -> Iterator[None]:
    """Leave torch's random state as it was found."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        yield


def train_once(config: RunConfig, path: Path, *, progress: Progress | None = None) -> History:
    """Train by a configuration and write one checkpoint, at the end, with its log beside it."""
    model, card = start_run(config)
    data, validation = _images(config, card)
    _, history = train_to(
        path,
        model,
        card,
        data,
        config.recipe,
        validation=validation,
        device=config.device,
        progress=progress,
    )
    return history


def _images(
    config: RunConfig, card: ModelCard
) -> tuple[Images | InMemory, Images | InMemory | None]:
    """Training and validation images, decoded once where the configuration has it so."""
    choice = config.data
    data = drawn(open_data(choice.source, card.transform, split=choice.split), choice.limit)
    held_out = None
    if choice.validation:
        held_out = open_data(choice.source, card.transform, split=choice.validation)
        held_out = drawn(held_out, choice.validation_limit)
    if not choice.memory or config.recipe.pictures is not None:
        return data, held_out
    return in_memory(data), None if held_out is None else in_memory(held_out)


def drawn(data: Images, limit: int | None) -> Images:
    """So many images, drawn once and for all from the whole; a folder's first are of one class."""
    if limit is None or limit >= len(data):
        return data
    return data.subset(np.sort(np.random.default_rng(0).permutation(len(data))[:limit]))


def _full_disk(folder: RunFolder) -> str:
    update = newest_update(folder.states)
    safe = "nothing was kept" if update is None else f"update {update} is kept"
    return (
        f"the disk is full while writing run {folder.path}; {safe}: free space, then go on with "
        "--resume"
    )
