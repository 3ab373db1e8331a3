import pytest
from pydantic import ValidationError

from routelab.records import ExpertGroup, MoESpec, SpheroRouting
from routelab.training import Recipe
from routelab.training.parameters import choose_trained, optimizer_of
from routelab.training.trainer import training_mode
from tests.training.small_models import TOPK, small_model

SPHERO = MoESpec(
    layers=(1,),
    router=SpheroRouting(),
    groups=(ExpertGroup(experts=4), ExpertGroup(name="u", experts=2)),
)


def learning(model):
    return {name for name, p in model.named_parameters() if p.requires_grad}


def test_norms_biases_temperatures_and_positions_do_not_decay():
    model = small_model(SPHERO)
    groups = optimizer_of(model, Recipe(weight_decay=0.3)).param_groups
    decays = {id(p): g["weight_decay"] for g in groups for p in g["params"]}
    for name, parameter in model.named_parameters():
        plain = parameter.ndim < 2 or name.endswith("bias") or name in ("pos_embed", "cls_token")
        assert decays[id(parameter)] == (0 if plain else 0.3), name


def test_moe_trains_routers_experts_and_head_only():
    model = small_model(TOPK)
    choose_trained(model, "moe")
    names = learning(model)
    assert all(n.startswith(("blocks.1.mlp", "blocks.2.mlp", "head")) for n in names)
    assert {"blocks.1.mlp.router.gate.weight", "head.weight", "head.bias"} <= names


def test_a_suffix_is_everything_from_the_first_moe_block_on():
    model = small_model(TOPK)
    choose_trained(model, "suffix")
    frozen = {name for name, _ in model.named_parameters()} - learning(model)
    assert frozen
    assert all(n.startswith(("cls_token", "pos_embed", "patch_embed", "blocks.0")) for n in frozen)


def test_frozen_modules_stay_in_evaluation_mode():
    model = small_model(TOPK)
    choose_trained(model, "moe")
    training_mode(model)
    assert not model.blocks[0].training
    assert not model.blocks[1].attn.training
    assert model.blocks[1].mlp.training


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"cache_prefix": True}, "set trains to suffix or moe"),
        (
            {"cache_prefix": True, "trains": "moe", "augmentation": {"mirror": True}},
            "augmentation has no effect",
        ),
        ({"auxiliary": {"ballance": 1}}, "balance"),
        ({"epochs": 0}, "greater than or equal to 1"),
    ],
)
def test_wrong_recipes_are_refused(wrong, sentence):
    with pytest.raises(ValidationError, match=sentence):
        Recipe(**wrong)
