"""How does a run go from its configuration to checkpoints, whatever interrupts it?"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn

from routelab.data import Images, InMemory, in_memory, open_data
from routelab.models import keep_freed_memory, save_checkpoint
from routelab.records import ModelCard, Refusal
from routelab.training.adapters import plain_copy
from routelab.training.config import RunConfig
from routelab.training.environment import environment_of
from routelab.training.folder import RunFolder
from routelab.training.history import Epoch, History, Update
from routelab.training.journal import Journal, cut_log, tensorboard_writer
from routelab.training.loop import (
    check_labels,
    images_done,
    learning,
    pictured,
    train_to,
    validated,
)
from routelab.training.parameters import prepare
from routelab.training.ranks import Ranks, joined_ranks
from routelab.training.safely import is_full
from routelab.training.snapshots import probe_order, read_snapshot, take_snapshot, write_snapshot
from routelab.training.starting import start_run
from routelab.training.state import newest_state, newest_update, restore, state_of, write_state
from routelab.training.trainer import Trainer

Progress = Callable[[int, int], None]
Told = Callable[[str], None]


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
    ranks = joined_ranks(config.device)
    folder = RunFolder(out)
    if not resume and ranks.first:
        folder.check_free(overwrite=overwrite)
    keep_freed_memory()
    model, card = start_run(config)
    data, validation = _images(config, card)
    check_labels(model, data)
    prepare(model, config.recipe)
    source = data.images if isinstance(data, InMemory) else data
    environment = environment_of(source.card, card, config.device, ranks.world)
    if ranks.first and resume:
        folder.reopen(config, environment)
    device = torch.device(config.device)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(config.recipe.seed + ranks.rank)
        learner = pictured(data, config.recipe, workers=config.data.workers)
        trainer = Trainer(model.to(device), learner, config.recipe, device=device, ranks=ranks)
        if ranks.first and not resume:
            folder.create(config, environment, overwrite=overwrite)
        ranks.wait()
        run = _Run(config, folder, trainer, card, data, validation, ranks, progress, told)
        try:
            return run.go(resume=resume)
        except (OSError, RuntimeError) as error:
            if not is_full(error):
                raise
            raise Refusal(_full_disk(folder)) from error


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
    data = open_data(choice.source, card.transform, split=choice.split, limit=choice.limit)
    held_out = (
        open_data(choice.source, card.transform, split=choice.validation)
        if choice.validation
        else None
    )
    if not choice.memory:
        return data, held_out
    kept = in_memory(data) if config.recipe.pictures is None else data
    return kept, None if held_out is None else in_memory(held_out)


def _full_disk(folder: RunFolder) -> str:
    update = newest_update(folder.states)
    safe = "nothing was kept" if update is None else f"update {update} is kept"
    return (
        f"the disk is full while writing run {folder.path}; {safe}: free space, then go on with "
        "--resume"
    )


@dataclass
class _Run:
    """One run after everything has been checked."""

    config: RunConfig
    folder: RunFolder
    trainer: Trainer
    card: ModelCard
    data: Images | InMemory
    validation: Images | InMemory | None
    ranks: Ranks
    progress: Progress | None
    told: Told
    epochs: list[Epoch] = field(default_factory=list)
    best: float = -math.inf

    def go(self, *, resume: bool) -> History:
        """Train to the end."""
        state = newest_state(self.folder.states, self.told) if resume else None
        if state is not None:
            restore(self.trainer, state)
            self.best = state["best"]
        if self.ranks.first:
            whole = self.trainer.epoch - 1
            self.epochs = cut_log(self.folder.log, self.trainer.update, whole)
        journal = self._journal()
        if state is None:
            self._snapshot(0)
        try:
            for event in self.trainer.run():
                if isinstance(event, Epoch):
                    self._after_epoch(event, journal)
                else:
                    self._after_update(event, journal)
        finally:
            if journal is not None:
                journal.close()
        self.ranks.wait()
        return History(
            recipe=self.config.recipe,
            images=len(self.data),
            parameters=learning(self.trainer.model),
            epochs=tuple(self.epochs),
        )

    def _journal(self) -> Journal | None:
        if not self.ranks.first:
            return None
        wanted = self.config.keep.tensorboard
        update = self.trainer.update
        board = tensorboard_writer(self.folder.tensorboard, update) if wanted else None
        return Journal(self.folder.log, board)

    def _after_update(self, event: Update, journal: Journal | None) -> None:
        keep, trainer = self.config.keep, self.trainer
        if journal is not None and event.update % keep.log_updates == 0:
            journal.add(event)
        if keep.state_updates and event.update % keep.state_updates == 0:
            self._write_state()
        if self.progress is not None:
            self.progress(images_done(trainer), trainer.recipe.epochs * trainer.plan.used)

    def _after_epoch(self, event: Epoch, journal: Journal | None) -> None:
        """Measure, write down, keep; the state comes last and says that all this is done."""
        epoch = validated(self.trainer, event, self.validation)
        self.epochs.append(epoch)
        if journal is not None:
            journal.add(epoch)
        every = self.config.keep.snapshots
        if every and epoch.epoch % every == 0:
            self._snapshot(epoch.epoch)
        if self.ranks.first:
            self._write_checkpoints(epoch)
        self._write_state()

    def _write_checkpoints(self, epoch: Epoch) -> None:
        metrics = {"training_accuracy": epoch.accuracy}
        if epoch.validation is not None:
            metrics["validation_accuracy"] = epoch.validation
        card = self.card.model_copy(update={"metrics": self.card.metrics | metrics})
        model = plain_copy(self.trainer.best_model)
        score = epoch.accuracy if epoch.validation is None else epoch.validation
        self._save(self.folder.last, model, card)
        every = self.config.keep.epochs
        if every and epoch.epoch % every == 0:
            self._save(self.folder.of_epoch(epoch.epoch), model, card)
        if score > self.best:
            self.best = score
            self._save(self.folder.best, model, card)

    def _save(self, path: Path, model: nn.Module, card: ModelCard) -> None:
        """Write a checkpoint; a full disk is told by what is safe, not by this file."""
        try:
            save_checkpoint(path, model, card)
        except Refusal as refusal:
            if refusal.__cause__ is not None and is_full(refusal.__cause__):
                raise OSError(*_reason(refusal.__cause__)) from refusal
            raise

    def _write_state(self) -> None:
        state = state_of(self.trainer) | {"best": self.best}
        if self.ranks.first:
            write_state(self.folder.states, state)

    def _snapshot(self, epoch: int) -> None:
        """Look at the probe images: of validation where there are some, else of training."""
        every = self.config.keep.snapshots
        if not every or not self.ranks.first or not self.trainer.gauge.layers:
            return
        data = self.data if self.validation is None else self.validation
        before = self.folder.snapshot(epoch - every)
        arrays = take_snapshot(
            self.trainer.best_model,
            data,
            probe_order(len(data), self.config.keep.probe),
            read_snapshot(before) if before.exists() else None,
            device=self.trainer.device,
        )
        write_snapshot(self.folder.snapshot(epoch), arrays)


def _reason(error: BaseException) -> tuple[int, str]:
    """Number and words of a full disk's error."""
    import errno

    return (getattr(error, "errno", None) or errno.ENOSPC, "No space left on device")
