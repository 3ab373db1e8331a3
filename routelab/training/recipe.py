"""Which choices decide a training? One typed value, checked before any work and kept in the log."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from routelab.data import Augmentation
from routelab.records import Record

Auxiliary = Literal["importance", "load", "balance", "router_z"]
Trains = Literal["all", "suffix", "moe"]


class Recipe(Record):
    """AdamW with a cosine schedule; the same recipe on one machine gives the same weights."""

    epochs: int = Field(default=10, ge=1)
    batch_size: int = Field(default=64, ge=1)
    learning_rate: float = Field(default=1e-3, gt=0, description="at the top of the schedule")
    weight_decay: float = Field(default=0.05, ge=0, description="of matrices only")
    warmup: float = Field(
        default=0.1, ge=0, lt=1, description="share of all updates in which the rate rises"
    )
    label_smoothing: float = Field(default=0.1, ge=0, lt=1)
    auxiliary: dict[Auxiliary, float] = Field(
        default_factory=dict, description="weights of the routers' losses; sparse routing only"
    )
    clip: float | None = Field(default=1.0, gt=0, description="largest norm of the gradient")
    trains: Trains = Field(
        default="all",
        description="all; suffix: everything from the first MoE block on; moe: MoE layers and head",
    )
    cache_prefix: bool = Field(
        default=False,
        description="compute the tokens before the first MoE block once and keep them",
    )
    cache_dtype: Literal["float16", "float32"] = "float16"
    augmentation: Augmentation = Augmentation()
    seed: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _cache_of_what_stays(self) -> Recipe:
        if self.cache_prefix and self.trains == "all":
            raise ValueError(
                "cache_prefix keeps tokens that training would change; set trains to suffix or moe"
            )
        if self.cache_prefix and self.augmentation.active:
            raise ValueError(
                "cache_prefix sees each image once, so augmentation has no effect; leave one out"
            )
        return self
