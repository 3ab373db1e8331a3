"""How good is a checkpoint: how often right, for which classes, how sure, how fast, how large?"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import nn

from routelab.data import Images, InMemory
from routelab.metrics import wilson_interval
from routelab.models import count
from routelab.records import ModelCard, Record, Refusal

BINS = 15
TOP = 5


class Share(Record):
    """A share of images with its Wilson interval (95 %); all None without images."""

    images: int
    value: float | None
    low: float | None = None
    high: float | None = None


class Scores(Record):
    """What `routelab eval` measures."""

    images: int
    top1: Share
    top5: Share | None = Field(description="None with five classes or fewer")
    per_class: dict[str, Share]
    calibration_error: float = Field(
        description=f"Σ share · |accuracy - confidence| over {BINS} bins"
    )
    mean_confidence: float
    images_per_second: float = Field(description="of the forward pass alone, after one batch")
    batch_size: int
    device: str
    parameters: int
    active_parameters: int = Field(description="that one token uses")
    flops: int = Field(description="of one image; 2 for a multiply-add")


def score(
    model: nn.Module,
    card: ModelCard,
    data: Images | InMemory,
    *,
    batch_size: int = 64,
    device: str = "cpu",
    progress: Callable[[int, int], None] | None = None,
) -> Scores:
    """Measure a model on labelled images, with running sums only.

    Raises
    ------
    Refusal
        If an image has no label, or the model has another number of classes.
    """
    check_classes(card, data)
    counts = count(model, card)
    found = _Predictions(len(data))
    model.eval().to(device)
    with torch.inference_mode():
        for batch in data.batches(batch_size):
            pixels = batch.pixels.to(device)
            began = _now(device)
            logits = model(pixels)
            found.add(batch.images, logits, batch.labels.to(device), _now(device) - began)
            if progress is not None:
                progress(found.done, len(data))
    right, labels = found.right, data.labels
    known = {name: _share(right[labels == label]) for label, name in enumerate(data.classes)}
    return Scores(
        images=len(data),
        top1=_share(right),
        top5=_share(found.in_top) if len(data.classes) > TOP else None,
        per_class=known,
        calibration_error=expected_calibration_error(found.confidence, right),
        mean_confidence=float(found.confidence.mean()),
        images_per_second=found.rate,
        batch_size=batch_size,
        device=device,
        parameters=counts.total,
        active_parameters=counts.active,
        flops=counts.total_flops,
    )


def check_classes(card: ModelCard, data: Images | InMemory) -> None:
    """Refuse images that the model cannot be right or wrong about."""
    if (data.labels < 0).any():
        raise Refusal("images without labels cannot be evaluated on; give class folders")
    if len(card.classes) != len(data.classes):
        raise Refusal(
            f"the checkpoint has {len(card.classes)} classes and the data {len(data.classes)}; "
            "give the data that it was trained for"
        )
    differ = [pair for pair in zip(card.classes, data.classes, strict=True) if pair[0] != pair[1]]
    if differ and set(card.classes) == set(data.classes):
        raise Refusal(
            f"the checkpoint's classes are in another order than the data's: {differ[0][0]} where "
            f"the data has {differ[0][1]}; rename the folders so that they sort as before"
        )


def expected_calibration_error(
    confidence: NDArray[np.float64], right: NDArray[np.bool_], *, bins: int = BINS
) -> float:
    """Σ_b n_b / n · |accuracy_b - confidence_b| over bins of equal width (Guo et al. 2017, eq. 3).

    Parameters
    ----------
    confidence
        Probability of the predicted class (n,), in (0, 1]; a bin holds its upper edge.
    right
        Whether the prediction is the label (n,).

    >>> expected_calibration_error(np.array([0.9, 0.9]), np.array([True, False]))
    0.4
    """
    place = np.clip(np.ceil(confidence * bins).astype(np.int64) - 1, 0, bins - 1)
    gap = np.bincount(place, weights=right - confidence, minlength=bins)
    return float(np.abs(gap).sum() / len(confidence))


class _Predictions:
    """What is kept of each image's logits."""

    def __init__(self, images: int) -> None:
        self.right, self.in_top = np.zeros((2, images), dtype=np.bool_)
        self.confidence = np.zeros(images)
        self.times: list[tuple[int, float]] = []

    def add(
        self, images: NDArray[np.int64], logits: torch.Tensor, labels: torch.Tensor, took: float
    ) -> None:
        """Take a batch: logits `(b, C)`, labels `(b,)`."""
        highest, predicted = logits.double().softmax(dim=1).max(dim=1)
        top = logits.topk(min(TOP, logits.shape[1]), dim=1).indices
        self.right[images] = (predicted == labels).cpu().numpy()
        self.in_top[images] = (top == labels[:, None]).any(dim=1).cpu().numpy()
        self.confidence[images] = highest.cpu().numpy()
        self.times.append((len(images), took))

    @property
    def done(self) -> int:
        """Images so far."""
        return sum(images for images, _ in self.times)

    @property
    def rate(self) -> float:
        """Images a second; the first batch warms up and is left out where there are more."""
        measured = self.times[1:] or self.times
        return sum(images for images, _ in measured) / sum(took for _, took in measured)


def _share(right: NDArray[np.bool_]) -> Share:
    if not len(right):
        return Share(images=0, value=None)
    low, high = wilson_interval(int(right.sum()), len(right))
    return Share(images=len(right), value=float(right.mean()), low=low, high=high)


def _now(device: str) -> float:
    """The time when the device has done what it was told."""
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
    return time.perf_counter()
