"""What is kept of a run while it goes on, so that nothing but the last updates can be lost?"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from routelab.data import Images, InMemory
from routelab.models import save_checkpoint
from routelab.records import ModelCard
from routelab.training.adapters import plain_copy
from routelab.training.config import RunConfig
from routelab.training.folder import RunFolder
from routelab.training.history import Epoch, History, Update
from routelab.training.journal import Journal, cut_log, tensorboard_writer
from routelab.training.loop import images_done, images_in_all, learning, validated
from routelab.training.snapshots import probe_order, read_snapshot, take_snapshot, write_snapshot
from routelab.training.state import newest_state, restore, state_of, write_state
from routelab.training.trainer import Trainer

Progress = Callable[[int, int], None]
Told = Callable[[str], None]


@dataclass
class Keeper:
    """A run under way: it drives the trainer, and writes down what happens.

    Attributes
    ----------
    config, folder
        What is to be done, and where it is kept.
    trainer
        The model that learns.
    card
        Of the model, to travel with its checkpoints.
    data, validation
        Images to train on, and to measure the accuracy on after each epoch.
    progress, told
        Who is told of images, and of what a user should know.
    epochs
        What became of each epoch so far.
    best
        The best accuracy so far: on validation images, or else in training.
    """

    config: RunConfig
    folder: RunFolder
    trainer: Trainer
    card: ModelCard
    data: Images | InMemory
    validation: Images | InMemory | None
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
        if self.trainer.ranks.first:
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
        self.trainer.ranks.wait()
        return History(
            recipe=self.config.recipe,
            images=len(self.data),
            parameters=learning(self.trainer.model),
            epochs=tuple(self.epochs),
        )

    def _journal(self) -> Journal | None:
        if not self.trainer.ranks.first:
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
            self.progress(images_done(trainer), images_in_all(trainer))

    def _after_epoch(self, event: Epoch, journal: Journal | None) -> None:
        """Measure, write down, keep; the state comes last and says that all this is done."""
        epoch = validated(self.trainer, event, self.validation)
        self.epochs.append(epoch)
        if journal is not None:
            journal.add(epoch)
        every = self.config.keep.snapshots
        if every and epoch.epoch % every == 0:
            self._snapshot(epoch.epoch)
        if self.trainer.ranks.first:
            self._write_checkpoints(epoch)
        self._write_state()

    def _write_checkpoints(self, epoch: Epoch) -> None:
        metrics = {"training_accuracy": epoch.accuracy}
        if epoch.validation is not None:
            metrics["validation_accuracy"] = epoch.validation
        card = self.card.model_copy(update={"metrics": self.card.metrics | metrics})
        model = plain_copy(self.trainer.best_model)
        score = epoch.accuracy if epoch.validation is None else epoch.validation
        save_checkpoint(self.folder.last, model, card)
        every = self.config.keep.epochs
        if every and epoch.epoch % every == 0:
            save_checkpoint(self.folder.of_epoch(epoch.epoch), model, card)
        if score > self.best:
            self.best = score
            save_checkpoint(self.folder.best, model, card)

    def _write_state(self) -> None:
        state = state_of(self.trainer) | {"best": self.best}
        if self.trainer.ranks.first:
            write_state(self.folder.states, state)

    def _snapshot(self, epoch: int) -> None:
        """Look at the probe images: of validation where there are some, else of training."""
        every = self.config.keep.snapshots
        if not every or not self.trainer.ranks.first or not self.trainer.gauge.layers:
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
