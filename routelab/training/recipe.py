"""Which choices decide a training? One typed value, checked before any work and kept in the log."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from routelab.data import Augmentation, Pictures
from routelab.records import Record

Auxiliary = Literal["importance", "load", "balance", "router_z"]
Trains = Literal["all", "suffix", "moe", "router", "head", "lora", "prompts"]
Precision = Literal["float32", "bfloat16", "float16"]


class Mixing(Record):
    """Mixup and CutMix (timm): a batch is blended with itself in reverse, its labels too."""

    mixup: float = Field(default=0.0, ge=0, description="alpha of its Beta distribution; 0: none")
    cutmix: float = Field(default=0.0, ge=0, description="alpha of its Beta distribution; 0: none")
    probability: float = Field(default=1.0, ge=0, le=1, description="share of batches mixed")
    switch: float = Field(
        default=0.5, ge=0, le=1, description="share of these that take CutMix where both are on"
    )

    @property
    def active(self) -> bool:
        """True if it changes anything."""
        return self.probability > 0 and (self.mixup > 0 or self.cutmix > 0)


class Contrastive(Record):
    """Supervised contrastive loss (arXiv 2004.11362, eq. 2) on the classifier's input."""

    weight: float = Field(default=0.0, ge=0, description="0: none")
    temperature: float = Field(default=0.1, gt=0)


class LowRank(Record):
    """LoRA (arXiv 2106.09685) on linear maps of the blocks; merged into them in checkpoints."""

    rank: int = Field(default=8, ge=1)
    alpha: float = Field(default=16.0, gt=0, description="the update is scaled by alpha / rank")
    targets: tuple[str, ...] = Field(
        default=("qkv", "proj"), min_length=1, description="names of the linear maps it acts on"
    )


class Recipe(Record):
    """AdamW with a cosine schedule; the same recipe on one machine gives the same weights."""

    epochs: int = Field(default=10, ge=1)
    updates: int | None = Field(
        default=None, ge=1, description="end after so many updates, whatever epochs says"
    )
    batch_size: int = Field(default=64, ge=1, description="of all processes together")
    accumulation: int = Field(
        default=1, ge=1, description="batches whose gradients make one update"
    )
    drop_last: bool = Field(default=False, description="leave out a last batch that is not full")
    learning_rate: float = Field(default=1e-3, gt=0, description="at the top of the schedule")
    final_rate: float = Field(
        default=0.0, ge=0, lt=1, description="at the end of the cosine, as a share of learning_rate"
    )
    warmup: float = Field(
        default=0.1, ge=0, lt=1, description="share of all updates in which the rate rises"
    )
    warmup_start: float = Field(
        default=0.01, ge=0, le=1, description="rate at the first update, as a share"
    )
    layer_decay: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="factor of the rate from a block to the one below; routers, experts and the "
        "norm before them keep the full rate",
    )
    weight_decay: float = Field(default=0.05, ge=0, description="of matrices only")
    betas: tuple[float, float] = (0.9, 0.999)
    clip: float | None = Field(default=1.0, gt=0, description="largest norm of the gradient")
    ema: float | None = Field(
        default=None, gt=0, lt=1, description="decay of the running mean of the weights; then kept"
    )
    precision: Precision = Field(
        default="float32", description="of matrix products; float16 with a scaler, on CUDA only"
    )
    label_smoothing: float = Field(default=0.1, ge=0, lt=1)
    auxiliary: dict[Auxiliary, float] = Field(
        default_factory=dict, description="weights of the routers' losses; sparse routing only"
    )
    contrastive: Contrastive = Contrastive()
    drop_path: float = Field(
        default=0.0, ge=0, lt=1, description="share of images that skip the last block; linear"
    )
    mixing: Mixing = Mixing()
    augmentation: Augmentation = Field(
        default=Augmentation(), description="of decoded batches, on the device"
    )
    pictures: Pictures | None = Field(
        default=None, description="of image files, as they are decoded; None: the fixed transform"
    )
    trains: Trains = Field(
        default="all",
        description="all; suffix: everything from the first MoE block on; moe: MoE layers and "
        "head; router: routers and head; head: a linear probe; lora; prompts: prompt tokens "
        "and head",
    )
    lora: LowRank = LowRank()
    prompts: int = Field(default=8, ge=1, description="prompt tokens, where these are trained")
    cache_prefix: bool = Field(
        default=False,
        description="compute the tokens before the first MoE block once and keep them",
    )
    cache_dtype: Literal["float16", "float32"] = "float16"
    seed: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _cache_of_what_stays(self) -> Recipe:
        if self.cache_prefix and self.trains not in ("suffix", "moe", "router", "head"):
            raise ValueError(
                "cache_prefix keeps tokens that training would change; set trains to suffix or moe"
            )
        changes = self.augmentation.active or self.pictures is not None or self.mixing.active
        if self.cache_prefix and changes:
            raise ValueError(
                "cache_prefix sees each image once, so augmentation has no effect; leave one out"
            )
        return self

    @model_validator(mode="after")
    def _one_label_an_image(self) -> Recipe:
        if self.contrastive.weight > 0 and self.mixing.active:
            raise ValueError(
                "the contrastive loss needs one class an image, and mixing gives it two; "
                "leave one out"
            )
        return self
