"""How does one batch pass through the model, and what is kept of it?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from routelab.capture.machine import Machine
from routelab.capture.pipeline import Address
from routelab.capture.recording import IMAGES, Detail, record
from routelab.capture.taps import Sight, Taps
from routelab.capture.thumbnails import thumbnails
from routelab.models import MoELayer
from routelab.records import RouterSpec, Transform

Keep = Callable[[Iterable[tuple[Address, Tensor]]], None]
"""Takes arrays by address; they may be reused as soon as it returns."""


@dataclass(frozen=True)
class Forward:
    """A model in evaluation mode, its MoE layers by dotted path, and the machine that it runs on.

    `transform` is how the pixels were made; thumbnails undo it.
    """

    model: nn.Module
    layers: Mapping[str, MoELayer]
    machine: Machine
    transform: Transform

    def __call__(self, pixels: Tensor) -> Tensor:
        """Class logits of a batch on the device, in inference mode and the machine's precision."""
        with torch.inference_mode(), self.machine.precision():
            logits: Tensor = self.model(pixels)
            return logits


def record_batch(
    forward: Forward,
    specs: Sequence[RouterSpec],
    detail: Detail,
    pixels: Tensor,
    labels: Tensor,
    *,
    full_rows: int,
    keep: Keep,
) -> Tensor:
    """Run one batch with hooks and give everything that is recorded of it to `keep`.

    Parameters
    ----------
    forward
        The model.
    specs
        Layers to record.
    detail
        How much is recorded.
    pixels, labels
        The batch on the device: `(B, c, h, w)` and `(B,)`, -1 where there is no label.
    full_rows
        Its first images that are recorded in full.
    keep
        Takes the arrays, layer by layer while the forward pass stands there.

    Returns
    -------
    Tensor
        The model's output.

    Raises
    ------
    Refusal
        If a layer did not run exactly once.
    """

    def observe(sight: Sight) -> None:
        keep(record(sight, detail, full_rows))

    with Taps(forward.layers, specs, observe) as taps:
        logits = forward(pixels)
        taps.check()
    with torch.inference_mode():
        keep(_image_columns(forward, pixels, labels, logits, full_rows))
    return logits


def _image_columns(
    forward: Forward, pixels: Tensor, labels: Tensor, logits: Tensor, full_rows: int
) -> Iterable[tuple[Address, Tensor]]:
    """Prediction (-1 where there is none), probability of the label, thumbnails."""
    if getattr(forward.model, "num_classes", 0):
        prediction, probability = predict(logits.float(), labels)
    else:  # the output is features, no classes
        prediction = torch.full_like(labels, -1, dtype=torch.int32)
        probability = torch.full_like(labels, torch.nan, dtype=torch.float32)
    yield Address(IMAGES, "", "prediction"), prediction
    yield Address(IMAGES, "", "probability"), probability
    if full_rows > 0:
        small = thumbnails(pixels[:full_rows], forward.transform)
        yield Address(IMAGES, "", "thumbnail"), small


def predict(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The most probable class `(B,)` int32, and the softmax probability of the label `(B,)`.

    The probability is NaN where there is no label, or where the model has no output for it.
    """
    finite = torch.isfinite(logits).all(dim=1)
    prediction = torch.where(finite, logits.argmax(dim=1), -1).int()
    known = (labels >= 0) & (labels < logits.shape[1])
    index = torch.where(known, labels, 0)[:, None]
    probability = logits.softmax(dim=1).gather(1, index).squeeze(1)
    return prediction, torch.where(known, probability, torch.nan)
