"""What is this MoE layer made of, and by what recipe do its logits become weights?

Letters used everywhere: B images, N tokens, E experts, p slots an expert, S slots in all,
k choices a token, d width, L layers, C classes.
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator


class Record(BaseModel):
    """A frozen value that refuses unknown keys; every record of RouteLab is one."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")


class ExpertGroup(Record):
    """Experts of one size inside a layer, for example MoE Jetpack's core or universal experts."""

    name: str = "routed"
    experts: int = Field(ge=1)
    hidden_ratio: float = Field(default=4.0, gt=0, description="hidden width / model width")
    slots: int = Field(default=1, ge=1, description="slots an expert; soft routing only")

    def hidden(self, width: int) -> int:
        """Hidden width of one expert in a model of this width."""
        return int(self.hidden_ratio * width)


class SoftRouting(Record):
    """Soft MoE (arXiv 2308.00951, section 2)."""

    kind: Literal["soft"] = "soft"
    noise: float = Field(default=0.0, ge=0, description="std of training noise on the logits")


class SpheroRouting(Record):
    """SpheroMoE (MoE Jetpack, arXiv 2406.04801), as its paper writes it or as its code computes."""

    kind: Literal["sphero"] = "sphero"
    preset: Literal["paper", "released"] = "released"
    temperature: float | None = Field(
        default=None, description="initial temperature; None takes the preset's own"
    )
    noise: float | None = Field(
        default=None, ge=0, description="noise multiplier; None is 1/E, the released default"
    )
    noise_at_evaluation: bool = Field(
        default=False,
        description="the released code adds noise at evaluation too; off unless asked",
    )
    normalize_queries: bool = Field(
        default=True, description="False leaves LN(phi) at its length, to see what that does"
    )


class TopKRouting(Record):
    """Token choice (V-MoE, arXiv 2106.05974): each token picks its k experts."""

    kind: Literal["topk"] = "topk"
    k: int = Field(default=1, ge=1)
    capacity_factor: float | None = Field(
        default=None, gt=0, description="None: no capacity, no token is dropped"
    )
    round_capacity_to: int = Field(
        default=1,
        ge=1,
        description="capacity is ceil'ed to a multiple of this; V-MoE's code uses 4",
    )
    images_per_group: int = Field(
        default=1, ge=1, description="images that share the expert buffers; V-MoE trains with 8"
    )
    batch_priority: bool = Field(default=False, description="tokens queue by their largest gate")
    renormalize: bool = Field(default=False, description="the k gates of a token sum to 1")
    noise: float = Field(default=0.0, ge=0, description="std of training noise is noise/E")


class ExpertChoiceRouting(Record):
    """Expert choice (arXiv 2202.09368): each expert picks its tokens, image by image."""

    kind: Literal["expert_choice"] = "expert_choice"
    capacity_factor: float = Field(default=2.0, gt=0)
    renormalize: bool = False
    noise: float = Field(default=0.0, ge=0)


class ImageRouting(Record):
    """One decision an image (ViMoE, arXiv 2410.15732): all tokens of an image share k experts."""

    kind: Literal["image"] = "image"
    k: int = Field(default=1, ge=1)
    source: Literal["class", "mean"] = Field(
        default="mean", description="the gate reads the class token or the mean of the patch tokens"
    )
    renormalize: bool = False
    noise: float = Field(default=0.0, ge=0)


RouterConfig = Annotated[
    SoftRouting | SpheroRouting | TopKRouting | ExpertChoiceRouting | ImageRouting,
    Field(discriminator="kind"),
]
RouterKind = Literal["soft", "sphero", "topk", "expert_choice", "image"]


class MoESpec(Record):
    """Which blocks of a model become MoE layers, and what stands in them; part of every checkpoint.

    The regularisers (expert dropout, stochastic depth, hidden dropout, noise) act in training only.
    """

    layers: tuple[int, ...] = Field(min_length=1, description="0-based block numbers")
    router: RouterConfig
    groups: tuple[ExpertGroup, ...] = Field(min_length=1)
    shared: ExpertGroup | None = Field(
        default=None,
        description="always-on experts whose mean output is added to the routed output",
    )
    expert_dropout: float = Field(
        default=0.0, ge=0, lt=1, description="share of experts off a step"
    )
    drop_path: float = Field(default=0.0, ge=0, lt=1, description="an image's routed output is off")
    hidden_dropout: float = Field(default=0.0, ge=0, lt=1, description="inside the experts")

    @model_validator(mode="after")
    def _consistent(self) -> MoESpec:
        if len(set(self.layers)) != len(self.layers) or min(self.layers) < 0:
            raise ValueError(f"layers {self.layers} must be distinct block numbers from 0 up")
        names = [group.name for group in self.groups]
        if len(set(names)) != len(names):
            raise ValueError(f"expert groups {names} must have different names")
        k = getattr(self.router, "k", 1)
        if k > self.experts:
            raise ValueError(
                f"k = {k} choices need at least {k} experts, the groups hold {self.experts}"
            )
        if self.router.kind not in ("soft", "sphero") and any(g.slots != 1 for g in self.groups):
            raise ValueError(
                f"slots are for soft routing; router {self.router.kind!r} takes slots = 1"
            )
        return self

    @property
    def experts(self) -> int:
        """Routed experts of one layer, over all groups."""
        return sum(group.experts for group in self.groups)


class GroupRange(Record):
    """Experts `start` to `stop` (exclusive) of a layer: one group, in expert-axis order."""

    name: str
    start: int
    stop: int
    hidden: int
    slots: int = 1


class SoftRecipe(Record):
    """How stored logits become weights: softmax(logits / t) over tokens, and over slots.

    dispatch = softmax over tokens of logits / dispatch_temperature (columns sum to 1);
    combine = softmax or entmax-1.5 over slots of logits / combine_temperature (rows sum to 1).
    """

    dispatch_temperature: float = 1.0
    combine_temperature: float = 1.0
    combine: Literal["softmax", "entmax15"] = "softmax"


class RouterSpec(Record):
    """One MoE layer as it was captured; everything a reader needs to interpret its arrays.

    `tokens` counts the tokens that are routed (1 for image-level routing); the first `prefix` of
    them are class and register tokens, the rest patches on `grid` (height, width), row-major.
    """

    layer: str = Field(description="dotted module path, for example blocks.6.mlp")
    depth: int = Field(ge=0, description="0-based block number; names the layer in the store")
    kind: RouterKind
    tokens: int = Field(ge=1)
    prefix: int = Field(default=0, ge=0)
    grid: tuple[int, int] | None = None
    width: int = Field(ge=1)
    groups: tuple[GroupRange, ...] = Field(min_length=1)
    shared: bool = False
    k: int | None = Field(default=None, description="stored choices a token; sparse routing only")
    capacity: int | None = Field(
        default=None, description="buffer places an expert; None: unlimited"
    )
    recipe: SoftRecipe | None = Field(
        default=None, description="None where weights are stored themselves, or routing is sparse"
    )
    absent: tuple[int, ...] = Field(default=(), description="pruned experts; they keep their index")

    @property
    def soft(self) -> bool:
        """True for soft routing (dispatch and combine), False for sparse (expert, gate, slot)."""
        return self.kind in ("soft", "sphero")

    @property
    def image_level(self) -> bool:
        """True where one decision serves all tokens of an image; token-level terms are 0 then."""
        return self.kind == "image"

    @property
    def experts(self) -> int:
        """E, the routed experts of the layer."""
        return self.groups[-1].stop

    @property
    def slots(self) -> int:
        """S, the slots of the layer, over all experts."""
        return sum((group.stop - group.start) * group.slots for group in self.groups)

    @cached_property
    def expert_of_slot(self) -> NDArray[np.int64]:
        """Expert of each slot, shape (S,); slots of one expert are neighbours."""
        slots = [np.repeat(np.arange(g.start, g.stop), g.slots) for g in self.groups]
        return np.concatenate(slots).astype(np.int64)

    @property
    def key(self) -> str:
        """Name of the layer's group in the store: its depth in two digits."""
        return f"{self.depth:02d}"
