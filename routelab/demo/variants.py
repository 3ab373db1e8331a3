"""Which models does the demo compare? One dense ViT, and four that differ only in their router."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from routelab.records import (
    ExpertGroup,
    ImageRouting,
    MoESpec,
    SoftRouting,
    SpheroRouting,
    TopKRouting,
    Transform,
)
from routelab.recycling import RecycleOptions
from routelab.training import Auxiliary

TRANSFORM = Transform(size=32, channels=1, mean=(0.5,), std=(0.5,), interpolation="bilinear")
ARCHITECTURE = "vit_tiny_patch16_224"
ARGUMENTS: dict[str, Any] = {
    "img_size": 32,
    "patch_size": 8,
    "embed_dim": 64,
    "depth": 5,
    "num_heads": 4,
}
LAYERS = (2, 3, 4)


@dataclass(frozen=True)
class Variant:
    """One MoE model of the demo: its name in files and tables, and what it is made of.

    `recycled` chooses the experts' neurons; None: each expert is a copy of the dense MLP.
    """

    name: str
    says: str
    spec: MoESpec
    auxiliary: dict[Auxiliary, float] = field(default_factory=dict)
    recycled: RecycleOptions | None = None


VARIANTS = (
    Variant(
        "soft",
        "Soft MoE, 8 experts × 2 slots",
        MoESpec(layers=LAYERS, router=SoftRouting(), groups=(ExpertGroup(experts=8, slots=2),)),
    ),
    Variant(
        "sphero",
        "SpheroMoE, 4 core + 8 universal",
        MoESpec(
            layers=LAYERS,
            router=SpheroRouting(),
            groups=(
                ExpertGroup(name="core", experts=4, slots=2, hidden_ratio=2.0),
                ExpertGroup(name="universal", experts=8, hidden_ratio=1.0),
            ),
        ),
        recycled=RecycleOptions(method="importance"),
    ),
    Variant(
        "topk",
        "token choice, 2 of 8 experts",
        MoESpec(
            layers=LAYERS,
            router=TopKRouting(k=2, capacity_factor=1.5, renormalize=True),
            groups=(ExpertGroup(experts=8),),
        ),
        {"balance": 0.01},
    ),
    Variant(
        "image",
        "one decision an image, 2 of 8",
        MoESpec(
            layers=LAYERS,
            router=ImageRouting(k=2, renormalize=True),
            groups=(ExpertGroup(experts=8),),
        ),
        {"balance": 0.01},
    ),
)
