"""How did a training go? One record an update and an epoch, in memory and as lines of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import Field

from routelab.records import Record, Refusal
from routelab.training.gauges import Routed
from routelab.training.recipe import Recipe


class Update(Record):
    """What one update measured, over all of its images."""

    update: int = Field(ge=1)
    epoch: int = Field(ge=1)
    loss: float = Field(description="the weighted sum that is minimised")
    parts: Mapping[str, float] = Field(description="parts of the loss, without their weights")
    accuracy: float
    learning_rate: float = Field(description="of the parameters with the full rate")
    gradient_norm: float = Field(description="before clipping")
    gradient_norms: Mapping[str, float] = Field(description="of router, experts and the rest")
    images_per_second: float


class Epoch(Record):
    """Means over the images of one epoch."""

    epoch: int = Field(ge=1)
    loss: float = Field(description="the weighted sum that is minimised")
    parts: Mapping[str, float] = Field(description="parts of the loss, without their weights")
    accuracy: float = Field(description="of the training batches, as they came")
    gradient_norm: float = Field(description="mean over updates, before clipping")
    gradient_norms: Mapping[str, float] = Field(
        default_factory=dict, description="the same for router, experts and the rest"
    )
    learning_rate: float = Field(description="at the last update, of parameters with the full rate")
    smallest_rate: float = Field(default=0.0, description="of the slowest parameters, then")
    images_per_second: float
    memory: int = Field(default=0, description="most bytes held: of the GPU, or of the process")
    validation: float | None = Field(default=None, description="accuracy on validation images")
    routing: Mapping[str, Routed] = Field(default_factory=dict, description="by layer")
    logit_scales: Mapping[str, float] = Field(
        default_factory=dict, description="temperatures and scales, by layer and name"
    )
    update: int = Field(default=0, description="updates so far")


class History(Record):
    """A recipe and what became of it."""

    recipe: Recipe
    images: int
    parameters: int = Field(description="that learned")
    epochs: tuple[Epoch, ...] = ()

    @property
    def last(self) -> Epoch:
        """The last epoch."""
        return self.epochs[-1]


class EpochLog:
    """Appends a line of JSON an epoch to a file, or does nothing without one."""

    def __init__(self, path: Path | None, recipe: Recipe) -> None:
        self.path = path
        if path is not None:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(recipe.model_dump_json() + "\n")
            except OSError as error:
                raise Refusal(f"log {path} cannot be written ({error.strerror})") from error

    def add(self, epoch: Epoch) -> None:
        """Write one line."""
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(epoch.model_dump_json() + "\n")
