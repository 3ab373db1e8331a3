"""What did a study measure? Arms of equal budget, several seeds each, and how each one learned."""

from __future__ import annotations

from pydantic import Field

from routelab.records.spec import Record


class Point(Record):
    """Where a run stood: what it had spent, and how often it was right on held-out images."""

    updates: int
    images: int
    flops: float = Field(description="of training: three forward passes for each image")
    seconds: float = Field(description="of training, without evaluation")
    accuracy: float


class GradientNorms(Record):
    """Norms of the gradient before clipping, over the updates of a run that were logged."""

    mean: float
    largest: float
    router: float | None = Field(default=None, description="mean norm of the routers' part")


class ArmRun(Record):
    """One arm with one seed."""

    arm: str
    seed: int
    accuracy: float = Field(description="on all held-out images, at the end")
    images: int = Field(description="held-out images")
    points: tuple[Point, ...]
    gradients: GradientNorms


class ArmCard(Record):
    """What an arm is, and what one run of it costs."""

    name: str
    says: str
    start: str = Field(description="where its weights come from")
    parameters: int
    active: int = Field(description="parameters that a token uses")
    learning: int = Field(description="parameters that learn")
    flops: float = Field(description="of one image's forward pass")
    updates: int
    images: int = Field(description="training images seen, with repeats")
    training_flops: float = Field(description="three forward passes for each image")
    seconds: float = Field(description="of training, mean over seeds, without evaluation")
    start_seconds: float = Field(description="to make the starting point, mean over seeds")


class Comparison(Record):
    """A study: arms, runs, and how they are to be compared."""

    name: str
    says: str
    data: str
    classes: int = Field(ge=1, description="of the data; guessing is right for one in so many")
    budget: str
    baseline: str = Field(description="the arm that others are compared with, seed by seed")
    arms: tuple[ArmCard, ...]
    runs: tuple[ArmRun, ...]
