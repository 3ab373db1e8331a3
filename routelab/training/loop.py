"""How is a model trained in one call, without a run directory?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from routelab.data import AugmentedImages, Images, InMemory
from routelab.models import keep_freed_memory, save_checkpoint
from routelab.records import ModelCard, Refusal
from routelab.training.adapters import merge_adapters
from routelab.training.evaluation import shared_accuracy
from routelab.training.history import Epoch, EpochLog, History
from routelab.training.parameters import prepare
from routelab.training.recipe import Recipe
from routelab.training.trainer import Trainer

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
    prepare(model, recipe)
    epoch_log = EpochLog(log, recipe)
    with torch.random.fork_rng(devices=_cuda_devices(device)):
        torch.manual_seed(recipe.seed)
        source = pictured(data, recipe)
        trainer = Trainer(model.to(device), source, recipe, device=torch.device(device))
        epochs = []
        for event in trainer.run():
            if isinstance(event, Epoch):
                epoch = validated(trainer, event, validation)
                epoch_log.add(epoch)
                epochs.append(epoch)
            elif progress is not None:
                progress(images_done(trainer), images_in_all(trainer))
    learned = learning(model)
    if trainer.average is not None:
        model.load_state_dict(trainer.average.module.state_dict())
    merge_adapters(model).eval()
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


def pictured(
    data: Images | InMemory, recipe: Recipe, *, workers: int = 2
) -> Images | InMemory | AugmentedImages:
    """The images as the recipe has them drawn in training.

    Raises
    ------
    Refusal
        If images are held in memory that should be transformed as they are decoded.
    """
    if recipe.pictures is None:
        return data
    if isinstance(data, InMemory):
        raise Refusal(
            "pictures are transformed as they are decoded, and these images are held decoded "
            "in memory; give the folder, or leave pictures out"
        )
    return AugmentedImages(data, recipe.pictures, seed=recipe.seed, workers=workers)


def validated(trainer: Trainer, epoch: Epoch, validation: Images | InMemory | None) -> Epoch:
    """The epoch with the accuracy on validation images, if there are any."""
    if validation is None:
        return epoch
    right = shared_accuracy(
        trainer.best_model, validation, device=str(trainer.device), ranks=trainer.ranks
    )
    return epoch.model_copy(update={"validation": right})


def images_done(trainer: Trainer) -> int:
    """Images that have passed, over all epochs."""
    return trainer.plan.images_after(trainer.update)


def images_in_all(trainer: Trainer) -> int:
    """Images that will have passed in the end."""
    return trainer.plan.images_after(trainer.plan.updates)


def learning(model: nn.Module) -> int:
    """Parameters that learn."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def check_labels(model: nn.Module, data: Images | InMemory) -> None:
    """Refuse images that the model has no output for."""
    outputs = int(getattr(model, "num_classes", 0))
    if (data.labels < 0).any():
        raise Refusal("images without labels cannot be trained on; give class folders")
    if len(data.classes) < 2:
        raise Refusal(
            f"the data holds one class ({', '.join(data.classes)}), so there is nothing to tell "
            "apart; give a folder with a folder for each of several classes"
        )
    if len(data.classes) != outputs:
        raise Refusal(
            f"the model has {outputs} classes and the data {len(data.classes)}; give the data that "
            "the model was made for, or a fresh classifier for these (--set start.new_head=true)"
        )


def _cuda_devices(device: str) -> list[torch.device]:
    """CUDA devices whose random state is set aside while training."""
    return [torch.device(device)] if device.startswith("cuda") else []
