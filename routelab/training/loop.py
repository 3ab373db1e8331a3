"""How does a model learn from images? Epochs of batches, forward, backward, clip, step, log."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from routelab.data import Batch, Images, InMemory, augment
from routelab.models import keep_freed_memory, save_checkpoint
from routelab.records import ModelCard, Refusal
from routelab.training.evaluation import evaluate
from routelab.training.history import Epoch, EpochLog, History
from routelab.training.objective import Seen, loss_of, watched_routers
from routelab.training.parameters import choose_trained, optimizer_of, schedule_of
from routelab.training.prefix import Suffix, Tokens, compute_tokens
from routelab.training.recipe import Recipe

Progress = Callable[[int, int], None]
"""Told of images done and images in all, after each batch."""


def train(
    model: nn.Module,
    data: Images | InMemory,
    recipe: Recipe,
    *,
    validation: Images | InMemory | None = None,
    device: str = "cpu",
    log: Path | None = None,
    progress: Progress | None = None,
) -> History:
    """Train a model in place and leave it in evaluation mode.

    Parameters
    ----------
    model
        A model whose classes are the data's.
    data
        Training images; held in memory they are decoded once, not once an epoch.
    recipe
        Everything that decides the outcome.
    validation
        Images to measure the accuracy on after each epoch.
    device
        Where to train.
    log
        A file that takes the recipe and then one line of JSON an epoch.
    progress
        Told after each batch.

    Raises
    ------
    Refusal
        Images without labels, losses or parts that the model does not have, or a loss that is not
        finite.
    """
    keep_freed_memory()
    check_labels(model, data)
    choose_trained(model, recipe.trains)
    epoch_log = EpochLog(log, recipe)
    with torch.random.fork_rng(devices=_cuda_devices(device)):
        torch.manual_seed(recipe.seed)
        training = _Training(model.to(device), data, recipe, torch.device(device), progress)
        epochs = []
        for epoch in training.run():
            if validation is not None:
                right = evaluate(model, validation, device=device).accuracy
                epoch = epoch.model_copy(update={"validation": right})
            epoch_log.add(epoch)
            epochs.append(epoch)
    model.eval()
    learned = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return History(recipe=recipe, images=len(data), parameters=learned, epochs=tuple(epochs))


def train_to(
    path: Path,
    model: nn.Module,
    card: ModelCard,
    data: Images | InMemory,
    recipe: Recipe,
    *,
    validation: Images | InMemory | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
) -> tuple[ModelCard, History]:
    """Train, then write the checkpoint in one step and its log beside it (`NAME.log.jsonl`).

    The card's metrics say what the last epoch reached.
    """
    history = train(
        model,
        data,
        recipe,
        validation=validation,
        device=device,
        log=path.with_suffix(".log.jsonl"),
        progress=progress,
    )
    metrics = {"training_accuracy": history.last.accuracy}
    if history.last.validation is not None:
        metrics["validation_accuracy"] = history.last.validation
    card = card.model_copy(update={"metrics": card.metrics | metrics})
    return save_checkpoint(path, model, card), history


def check_labels(model: nn.Module, data: Images | InMemory) -> None:
    """Refuse images that the model has no output for."""
    outputs = int(getattr(model, "num_classes", 0))
    if (data.labels < 0).any():
        raise Refusal("images without labels cannot be trained on; give class folders")
    if len(data.classes) != outputs:
        raise Refusal(
            f"the model has {outputs} classes and the data {len(data.classes)}; "
            "give the data that the model was made for, or build it for these classes"
        )


class _Training:
    """One training after everything has been checked."""

    def __init__(
        self,
        model: nn.Module,
        data: Images | InMemory,
        recipe: Recipe,
        device: torch.device,
        progress: Progress | None,
    ) -> None:
        self.model, self.recipe, self.device, self.progress = model, recipe, device, progress
        self.data: Images | InMemory | Tokens = data
        self.network: nn.Module = model
        if recipe.cache_prefix:
            dtype = getattr(torch, recipe.cache_dtype)
            size = recipe.batch_size
            self.network = Suffix(model)
            self.data = compute_tokens(model, data, batch_size=size, dtype=dtype, device=device)
        self.updates = recipe.epochs * -(-len(data) // recipe.batch_size)
        self.optimizer = optimizer_of(model, recipe)
        self.schedule = schedule_of(self.optimizer, recipe, self.updates)
        self.order = np.random.default_rng(recipe.seed)
        self.generator = torch.Generator().manual_seed(recipe.seed)
        self.update = 0

    def run(self) -> Iterator[Epoch]:
        """One `Epoch` after the other."""
        with watched_routers(self.model, self.recipe) as seen:
            for number in range(1, self.recipe.epochs + 1):
                yield self._epoch(number, seen)

    def _epoch(self, number: int, seen: Seen) -> Epoch:
        began = time.perf_counter()
        training_mode(self.model)
        sums: dict[str, float] = defaultdict(float)
        images = updates = 0
        order = self.order.permutation(len(self.data))
        for batch in self.data.batches(self.recipe.batch_size, order=order):
            seen.clear()
            values = self._step(batch, seen)
            norm = values.pop("gradient_norm")
            for name, value in values.items():
                sums[name] += value * len(batch.labels)
            sums["gradient_norm"] += norm
            images, updates = images + len(batch.labels), updates + 1
            if self.progress is not None:
                done = (number - 1) * len(self.data) + images
                self.progress(done, self.recipe.epochs * len(self.data))
        norm = sums.pop("gradient_norm") / updates
        means = {name: value / images for name, value in sums.items()}
        return Epoch(
            epoch=number,
            loss=means.pop("loss"),
            accuracy=means.pop("accuracy"),
            gradient_norm=norm,
            learning_rate=self.optimizer.param_groups[0]["lr"],
            images_per_second=images / (time.perf_counter() - began),
            parts=means,
        )

    def _step(self, batch: Batch, seen: Seen) -> dict[str, float]:
        """One update; what it measured."""
        self.schedule.step_update(self.update)
        self.update += 1
        pixels = augment(batch.pixels.to(self.device), self.recipe.augmentation, self.generator)
        labels = batch.labels.to(self.device)
        logits = self.network(pixels)
        loss = loss_of(logits, labels, seen, self.recipe)
        if not torch.isfinite(loss.total):
            raise Refusal(
                f"the loss is not finite at update {self.update} of {self.updates}; lower the "
                f"learning rate ({self.recipe.learning_rate:g}), and check that no image is blank"
            )
        self.optimizer.zero_grad()
        loss.total.backward()
        norm = self._clip()
        self.optimizer.step()
        right = (logits.argmax(dim=1) == labels).float().mean()
        parts = {name: part.item() for name, part in loss.parts.items()}
        return {
            "loss": loss.total.item(),
            "accuracy": right.item(),
            "gradient_norm": norm.item(),
            **parts,
        }

    def _clip(self) -> Tensor:
        """Norm of the gradient before it is clipped."""
        learning = [p for p in self.model.parameters() if p.grad is not None]
        most = self.recipe.clip if self.recipe.clip is not None else float("inf")
        return nn.utils.clip_grad_norm_(learning, most)


def training_mode(model: nn.Module) -> None:
    """Training mode, except for modules of which no parameter learns: they stay as in use."""
    model.train()
    for module in model.modules():
        parameters = list(module.parameters())
        if parameters and not any(p.requires_grad for p in parameters):
            module.eval()


def _cuda_devices(device: str) -> list[torch.device]:
    """CUDA devices whose random state is set aside while training."""
    return [torch.device(device)] if device.startswith("cuda") else []
