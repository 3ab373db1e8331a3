"""A ViT small enough for a test, and the cards that describe its MoE variants."""

from routelab.records import (
    ExpertChoiceRouting,
    ExpertGroup,
    ImageRouting,
    ModelCard,
    MoESpec,
    SoftRouting,
    SpheroRouting,
    TopKRouting,
    Transform,
)

ROUTERS = [
    SoftRouting(),
    SpheroRouting(preset="released"),
    SpheroRouting(preset="paper"),
    TopKRouting(k=2, capacity_factor=1.05),
    ExpertChoiceRouting(),
    ImageRouting(source="class"),
]


def small_card(router=None, **spec):
    """Card of a three-block ViT of width 48 on 32-pixel images; blocks 1 and 2 are MoE layers."""
    groups = (
        ExpertGroup(name="core", experts=3, hidden_ratio=2.0),
        ExpertGroup(name="universal", experts=2, hidden_ratio=0.5),
    )
    moe = {"layers": (1, 2), "router": router, "groups": groups} | spec
    return ModelCard(
        architecture="vit_tiny_patch16_224",
        arguments={"img_size": 32, "patch_size": 8, "depth": 3, "embed_dim": 48, "num_heads": 3},
        classes=("cat", "dog", "owl"),
        transform=Transform(size=32),
        spec=None if router is None else MoESpec(**moe),
    )
