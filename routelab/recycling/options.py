"""By what rules is a dense model recycled? One typed value, saved in the model's card."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from routelab.records import Record
from routelab.recycling.selection import PARTS, Draw, Method, Partitioner, Weights
from routelab.recycling.statistics import Kind, Score

Rule = Literal["uniform", "random", "importance"]

RULES: dict[str, Rule] = {
    "random": "random",
    "uniform": "uniform",
    "copy": "uniform",
    "importance": "importance",
    "graph": "importance",
}
"""How channels are chosen where nothing else is said, by the method for neurons."""


class RecycleOptions(Record):
    """How hidden neurons and, where the width shrinks, channels are chosen."""

    method: Method = "importance"
    score: Score = Field(default="l2", description="of a neuron; importance")
    draw: Draw = Field(default="sample", description="in proportion to the score, or the highest")
    partitioner: Partitioner = Field(default="metis", description="of the graph")
    parts: int = Field(default=PARTS, ge=1, description="that the graph is cut into")
    weights: Weights = Field(default="lift", description="of the graph's edges")
    coactivation: Literal["firing", "activation"] = Field(
        default="firing", description="what the graph counts"
    )
    width: int | None = Field(
        default=None, ge=1, description="channels; of a ConvNeXt's first stage; None: the body's"
    )
    heads: int | None = Field(
        default=None, ge=1, description="attention heads; None: as many as keep their size"
    )
    channels: Rule | None = Field(default=None, description="None: as the method has it")
    channel_mode: Literal["shared", "expert"] = Field(
        default="shared", description="one channel index for the network, or one an expert"
    )
    qkv: Literal["heads", "released"] = Field(
        default="heads", description="whole heads, or the rows of the channel index"
    )
    noise: float = Field(
        default=0.0, ge=0, description="added to experts' weights, in their standard deviations"
    )
    seed: int = Field(default=0, ge=0)

    @property
    def channel_rule(self) -> Rule:
        """How channels are chosen."""
        return self.channels or RULES[self.method]

    @property
    def looks_at_images(self) -> bool:
        """True if neurons or channels cannot be chosen without activation statistics."""
        return self.method in ("importance", "graph") or (
            self.channels == "importance" and self.width is not None
        )

    @property
    def statistics_kind(self) -> Kind:
        """Co-activation that has to be measured."""
        return self.coactivation if self.method == "graph" else "none"
