import pytest
import torch

from routelab.models import MoELayer, build, copy_dense, moe_layers, router_specs
from routelab.records import (
    ExpertGroup,
    ImageRouting,
    ModelCard,
    MoESpec,
    Refusal,
    SoftRouting,
    TopKRouting,
    Transform,
)
from tests.models.small import ROUTERS, small_card

EVEN = (ExpertGroup(experts=2, hidden_ratio=1.0),)


@pytest.mark.parametrize("router", ROUTERS, ids=str)
def test_every_router_family_stands_in_a_vit(router):
    card = small_card(router)
    model = build(card, seed=0)
    assert list(moe_layers(model)) == ["blocks.1.mlp", "blocks.2.mlp"]
    assert model(torch.randn(2, 3, 32, 32)).shape == (2, 3)
    spec = router_specs(model, card)["blocks.2.mlp"]
    assert (spec.depth, spec.kind, spec.experts, spec.width) == (2, router.kind, 5, 48)
    assert [(g.name, g.start, g.stop, g.hidden) for g in spec.groups] == [
        ("core", 0, 3, 96),
        ("universal", 3, 5, 24),
    ]
    assert spec.grid == (4, 4)
    if router.kind == "image":
        assert (spec.tokens, spec.prefix) == (1, 0)
    else:
        assert (spec.tokens, spec.prefix) == (17, 1)


def test_the_probe_leaves_the_model_as_it_was():
    card = small_card(SoftRouting())
    model = build(card).train()
    router_specs(model, card)
    assert model.training
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_the_same_seed_builds_the_same_weights():
    first, second = (build(small_card(SoftRouting()), seed=3).state_dict() for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize(
    ("architecture", "arguments", "prefix", "grid"),
    [
        ("deit_tiny_distilled_patch16_224", {"img_size": 32}, 2, (2, 2)),
        ("vit_small_patch14_reg4_dinov2", {"img_size": 28, "depth": 2}, 5, (2, 2)),
        ("vit_small_patch14_dinov2", {"img_size": 42, "depth": 2}, 1, (3, 3)),
        (
            "convnext_atto",
            {"depths": (1, 1, 1, 1), "dims": (8, 16, 24, 32), "conv_mlp": False},
            0,
            (4, 4),
        ),
    ],
)
def test_class_and_register_tokens_and_maps_are_told_apart(architecture, arguments, prefix, grid):
    size = arguments.get("img_size", 64)
    card = ModelCard(
        architecture=architecture,
        arguments=arguments,
        classes=("a", "b"),
        transform=Transform(size=size),
        spec=MoESpec(layers=(1,), router=TopKRouting(), groups=EVEN),
    )
    if architecture == "convnext_atto":
        card = card.model_copy(update={"spec": card.spec.model_copy(update={"layers": (2,)})})
    model = build(card)
    (spec,) = router_specs(model, card).values()
    assert (spec.prefix, spec.grid) == (prefix, grid)
    assert spec.tokens == prefix + grid[0] * grid[1]
    assert model(torch.randn(2, 3, size, size)).shape == (2, 2)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"architecture": "vit_tiny_patch16_223"}, "nearest are vit_tiny_patch16_224"),
        ({"arguments": {"depht": 3}}, "cannot be built with the arguments"),
        ({"architecture": "resnet18", "arguments": {}}, "has no block with a linear MLP"),
    ],
)
def test_a_model_that_cannot_be_built_is_refused_in_one_sentence(change, says):
    with pytest.raises(Refusal, match=says):
        build(small_card(SoftRouting()).model_copy(update=change))


def test_a_layer_out_of_range_is_refused_with_the_range():
    with pytest.raises(Refusal, match=r"layer 7 does not exist: .* numbered 0 to 2"):
        build(small_card(SoftRouting(), layers=(1, 7)))


def test_a_class_token_gate_needs_a_class_token():
    card = small_card(ImageRouting(source="class"))
    arguments = card.arguments | {"class_token": False, "global_pool": "avg"}
    with pytest.raises(Refusal, match="set the router's source to 'mean'"):
        build(card.model_copy(update={"arguments": arguments}))


@pytest.mark.parametrize(
    "router", [TopKRouting(k=2, renormalize=True), ImageRouting(k=1, renormalize=True)]
)
def test_copies_of_the_dense_mlp_with_gates_that_sum_to_1_change_nothing(router):
    groups = (ExpertGroup(experts=3, hidden_ratio=4.0),)
    dense, moe = build(small_card(), seed=0), build(small_card(router, groups=groups), seed=1)
    copy_dense(dense, moe)
    pixels = torch.randn(2, 3, 32, 32)
    torch.testing.assert_close(moe(pixels), dense(pixels), rtol=1e-5, atol=1e-5)


def test_a_narrow_expert_keeps_evenly_spaced_neurons_of_the_dense_mlp():
    dense = build(small_card(), seed=0)
    moe = build(small_card(SoftRouting()), seed=1)
    copy_dense(dense, moe)
    layer = moe_layers(moe)["blocks.1.mlp"]
    assert isinstance(layer, MoELayer)
    bank = layer.experts.banks["universal"]
    mlp = dense.blocks[1].mlp
    neurons = torch.arange(24) * 8
    assert torch.equal(bank.fc1_weight[1], mlp.fc1.weight[neurons].T)
    assert torch.equal(bank.fc1_bias[0], mlp.fc1.bias[neurons])
    assert torch.equal(bank.fc2_weight[0], mlp.fc2.weight[:, neurons].T)


def test_copying_refuses_wider_experts_and_other_bodies():
    dense = build(small_card())
    wide = (ExpertGroup(experts=2, hidden_ratio=8.0),)
    with pytest.raises(Refusal, match="lower the group's hidden_ratio"):
        copy_dense(dense, build(small_card(SoftRouting(), groups=wide)))
    other = small_card(SoftRouting())
    other = other.model_copy(update={"arguments": other.arguments | {"embed_dim": 96}})
    with pytest.raises(Refusal, match="same architecture"):
        copy_dense(dense, build(other))
