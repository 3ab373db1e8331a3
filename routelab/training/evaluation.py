"""How often is a model right, in all and class by class?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from routelab.data import Images, InMemory
from routelab.records import Refusal
from routelab.training.ranks import ALONE, Ranks


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Predictions on labelled images.

    Attributes
    ----------
    accuracy
        Share of images whose most probable class is their label.
    per_class
        The same for each class (C,); NaN for a class without images.
    predictions
        Most probable class of each image (n,).
    n
        Images with a label.
    """

    accuracy: float
    per_class: NDArray[np.float64]
    predictions: NDArray[np.int64]
    n: int


@torch.inference_mode()
def evaluate(
    model: nn.Module, data: Images | InMemory, *, batch_size: int = 128, device: str = "cpu"
) -> Evaluation:
    """Accuracy of a model on the images that have a label; the model's mode is kept.

    Raises
    ------
    Refusal
        If no image has a label.
    """
    labels = data.labels
    known = labels >= 0
    if not known.any():
        raise Refusal("no image has a label, so there is no accuracy; give class folders")
    training = model.training
    model.eval().to(device)
    predictions = np.empty(len(labels), dtype=np.int64)
    for batch in data.batches(batch_size):
        logits = model(batch.pixels.to(device))
        predictions[batch.images] = logits.argmax(dim=1).cpu().numpy()
    model.train(training)
    right = predictions == labels
    classes = max(len(data.classes), int(labels.max()) + 1)
    images = np.bincount(labels[known], minlength=classes)
    hits = np.bincount(labels[right & known], minlength=classes)
    per_class = np.full(classes, np.nan)
    np.divide(hits, images, out=per_class, where=images > 0)
    return Evaluation(float(right[known].mean()), per_class, predictions, int(known.sum()))


@torch.inference_mode()
def shared_accuracy(
    model: nn.Module,
    data: Images | InMemory,
    *,
    device: str = "cpu",
    ranks: Ranks = ALONE,
    batch_size: int = 128,
) -> float:
    """Accuracy on the images that have a label, each process counting its share of them."""
    known = np.flatnonzero(data.labels >= 0)
    if not len(known):
        raise Refusal("no image has a label, so there is no accuracy; give class folders")
    training = model.training
    model.eval().to(device)
    right = torch.zeros((), dtype=torch.int64, device=device)
    for batch in data.batches(batch_size, order=known[ranks.rank :: ranks.world]):
        found = model(batch.pixels.to(device)).argmax(dim=1)
        right += (found == batch.labels.to(device)).sum()
    model.train(training)
    return int(ranks.total(right)) / len(known)
