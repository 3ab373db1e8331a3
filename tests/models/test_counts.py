"""Parameter counts of published models, and FLOPs against hand-worked values."""

import pytest
import torch

from routelab.models import build, count
from routelab.records import (
    ExpertGroup,
    ModelCard,
    MoESpec,
    SoftRouting,
    SpheroRouting,
    TopKRouting,
    Transform,
)
from tests.models.small import small_card

THOUSAND = tuple(str(i) for i in range(1000))


def published(architecture, layers, groups, router):
    """A model of MoE Jetpack's tables on the meta device, its counts."""
    card = ModelCard(
        architecture=architecture,
        arguments={"global_pool": "avg"},
        classes=THOUSAND,
        transform=Transform(size=224),
        spec=MoESpec(layers=tuple(layers), router=router, groups=groups),
    )
    with torch.device("meta"):
        return count(build(card), card)


def dual(core, universal):
    return (
        ExpertGroup(name="core", experts=core),
        ExpertGroup(name="universal", experts=universal, hidden_ratio=1.0),
    )


RELEASED = SpheroRouting(preset="released")
SINGLE = (ExpertGroup(experts=197),)
LAST_SIX = range(6, 12)


@pytest.mark.parametrize(
    ("architecture", "total"),
    [("vit_tiny_patch16_224", 265_411_636), ("vit_small_patch16_224", 1_058_124_916)],
)
def test_released_spheromoe_has_exactly_the_published_parameters(architecture, total):
    assert published(architecture, LAST_SIX, dual(98, 196), RELEASED).total == total


@pytest.mark.parametrize(
    ("architecture", "layers", "groups", "router", "millions"),
    [
        ("vit_tiny_patch16_224", LAST_SIX, SINGLE, SoftRouting(), 354),
        ("vit_small_patch16_224", LAST_SIX, SINGLE, SoftRouting(), 1412),
        ("vit_tiny_patch16_224", range(10, 12), dual(98, 196), RELEASED, 92),
        ("vit_tiny_patch16_224", range(8, 12), dual(98, 196), RELEASED, 179),
        ("vit_tiny_patch16_224", range(4, 12), dual(98, 196), RELEASED, 352),
        ("vit_tiny_patch16_224", LAST_SIX, dual(32, 64), RELEASED, 89),
        ("vit_tiny_patch16_224", LAST_SIX, dual(64, 128), RELEASED, 175),
        ("vit_tiny_patch16_224", LAST_SIX, dual(98, 196), RELEASED, 265),
        ("vit_small_patch16_224", LAST_SIX, dual(98, 196), RELEASED, 1058),
    ],
)
def test_table_4_of_moe_jetpack(architecture, layers, groups, router, millions):
    """Table 4 of arXiv 2406.04801, column of parameters."""
    total = published(architecture, layers, groups, router).total
    assert round(total / 1e6) == millions


def test_the_dense_vit_tiny_of_table_4():
    card = ModelCard(
        architecture="vit_tiny_patch16_224", classes=THOUSAND, transform=Transform(size=224)
    )
    counts = count(build(card), card)
    assert round(counts.total / 1e6) == 6
    # recycling.md, section 1.1: 58.10 M multiply-adds a dense MLP, 1.254 G in all
    assert counts.flops["dense_mlp"] == 12 * 2 * 58_097_664
    assert counts.total_flops / 2e9 == pytest.approx(1.254, abs=0.005)


def test_the_parts_add_up_and_active_parameters_are_those_of_k_experts():
    card = small_card(TopKRouting(k=1), shared=ExpertGroup(experts=1, hidden_ratio=1.0))
    model = build(card)
    counts = count(model, card)
    assert counts.total == sum(p.numel() for p in model.parameters())
    core, universal = 2 * 48 * 96 + 96 + 48, 2 * 48 * 24 + 24 + 48
    assert counts.parameters["experts"] == 2 * (3 * core + 2 * universal)
    assert counts.parameters["shared"] == 2 * (2 * 48 * 48 + 48 + 48)
    assert counts.parameters["router"] == 2 * 5 * 48
    assert counts.total - counts.active == 2 * (2 * core + 2 * universal)


def test_flops_of_soft_routing_by_hand():
    card = small_card(SoftRouting())
    flops = count(build(card), card).flops
    tokens, width, slots = 17, 48, 5
    assert flops["experts"] == 2 * 2 * 2 * width * (3 * 96 + 2 * 24)
    assert flops["routing"] == 2 * 3 * 2 * tokens * slots * width
    attention = 2 * tokens * (3 * width * width + width * width) + 2 * 2 * tokens * tokens * width
    assert flops["attention"] == 3 * attention
    patches = 2 * 16 * width * 3 * 8 * 8
    assert flops["other"] == patches + 2 * width * 3


def test_flops_of_top_k_follow_the_choices():
    groups = (ExpertGroup(experts=4, hidden_ratio=2.0),)
    one, two = (
        count(build(card), card).flops
        for card in (small_card(TopKRouting(k=k), groups=groups) for k in (1, 2))
    )
    assert one["experts"] == 2 * 2 * 2 * 17 * 48 * 96
    assert two["experts"] == 2 * one["experts"]
    assert one["routing"] == 2 * 2 * 17 * 4 * 48
