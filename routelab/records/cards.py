"""Where did this come from? Cards travel with checkpoints and stores, and hold facts only."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from routelab.records.spec import MoESpec, Record, RouterSpec

Level = Literal["totals", "profiles", "full"]


class Transform(Record):
    """How pixels are made from an image: resize the short side, centre-crop, scale, normalise."""

    size: int = Field(ge=1, description="side of the square input, pixels")
    channels: int = 3
    crop: float = Field(
        default=1.0, gt=0, le=1, description="share of the resized side that is kept"
    )
    interpolation: Literal["bicubic", "bilinear", "nearest"] = "bicubic"
    mean: tuple[float, ...] = (0.485, 0.456, 0.406)
    std: tuple[float, ...] = (0.229, 0.224, 0.225)


class LineageSource(Record):
    """A dense checkpoint that weights were taken from."""

    architecture: str
    sha256: str = Field(default="", description="of its file")
    widths: tuple[int, ...] = Field(
        default=(), description="channels; one a stage where they differ"
    )


class Lineage(Record):
    """Which weights of which dense checkpoints a MoE model was made of.

    The indices themselves are integer tensors of the checkpoint, named `lineage.NAME`.
    """

    method: str
    options: dict[str, Any] = Field(default_factory=dict)
    body: LineageSource
    experts: LineageSource
    available: dict[str, int] = Field(
        default_factory=dict, description="hidden neurons of the source's MLP, by layer"
    )
    images: int = Field(default=0, description="that were looked at to choose neurons")
    data: str = Field(default="", description="SHA-256 of these images")
    tensors: dict[str, tuple[int, ...]] = Field(
        default_factory=dict, description="shape of each tensor of indices, by NAME"
    )


class ModelCard(Record):
    """What a checkpoint holds; stored beside its weights as JSON."""

    architecture: str = Field(description="timm model name, for example vit_small_patch16_224")
    arguments: dict[str, Any] = Field(
        default_factory=dict, description="keyword arguments of timm.create_model"
    )
    spec: MoESpec | None = Field(default=None, description="None: a dense model")
    classes: tuple[str, ...] = ()
    transform: Transform
    source: str = Field(default="", description="where the weights came from, in words")
    lineage: Lineage | None = Field(default=None, description="None: not recycled")
    metrics: dict[str, float] = Field(default_factory=dict)
    sha256: str = Field(default="", description="of the safetensors file beside the card")


class DataCard(Record):
    """Which images were read, in which order."""

    source: str = Field(description="folder as given, or the data set's name")
    split: str = ""
    classes: tuple[str, ...] = ()
    images: int
    sha256: str = Field(default="", description="of the ordered list of image ids and labels")
    skipped: tuple[str, ...] = Field(default=(), description="unreadable files that were left out")


class CaptureCard(Record):
    """How the store was made. Everything here is the same for a broken-off and an unbroken run."""

    command: str = ""
    level: Level = "profiles"
    full: int = Field(default=0, ge=0, description="images with full routing")
    features: Literal["none", "pooled", "tokens"] = "pooled"
    batch_size: int = Field(ge=1)
    shard: int = Field(ge=1, description="images a shard of the full arrays")
    device: str = "cpu"
    dtype: str = "float32"
    seed: int = 0
    versions: dict[str, str] = Field(default_factory=dict)


class Check(Record):
    """One line of a capture's certificate."""

    name: str
    passed: bool
    value: float | None = Field(default=None, description="what was measured")
    limit: float | None = Field(default=None, description="what was allowed")
    detail: str = ""


class Certificate(Record):
    """What a capture proves about itself; every line names what was measured and its limit."""

    checks: tuple[Check, ...] = ()

    @property
    def passed(self) -> bool:
        """True if every check passed (and there is at least one)."""
        return bool(self.checks) and all(check.passed for check in self.checks)


class StoreCard(Record):
    """The root attributes of a store, under the key `routelab`."""

    format: int = Field(description="version of the layout; readers refuse another")
    model: ModelCard
    data: DataCard
    capture: CaptureCard
    layers: tuple[RouterSpec, ...]
    refused: dict[str, str] = Field(
        default_factory=dict, description="layers left out of the store, and why"
    )
    certificate: Certificate = Certificate()
    committed: int = Field(default=0, ge=0, description="images safely stored")
    complete: bool = False
