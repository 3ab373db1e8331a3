"""What learns is what the recipe says, and every mode ends in a plain checkpoint."""

import copy

import peft
import pytest
import torch
from torch import nn

from routelab.models import load_checkpoint, save_checkpoint
from routelab.records import ExpertGroup, MoESpec, Refusal, SoftRouting
from routelab.training import LowRank, Recipe, add_prompts, train, train_run, with_new_head
from routelab.training.adapters import add_adapters, merge_adapters, plain_copy
from routelab.training.parameters import choose_trained
from tests.training.small_models import TOPK, small_card, small_model, some_digits
from tests.training.small_runs import small_config

SOFT = MoESpec(layers=(1,), router=SoftRouting(), groups=(ExpertGroup(experts=2),))


def changed(before, after):
    """First two parts of the names of the weights that differ."""
    return {
        ".".join(name.split(".")[:4]) if ".mlp.router" in name else ".".join(name.split(".")[:2])
        for name, weight in before.items()
        if not torch.equal(weight, after[name])
    }


@pytest.mark.parametrize(
    ("trains", "expected"),
    [
        ("router", {"blocks.1.mlp.router", "blocks.2.mlp.router", "head.weight", "head.bias"}),
        ("head", {"head.weight", "head.bias"}),
    ],
)
def test_only_what_is_chosen_changes(trains, expected):
    model = small_model(TOPK)
    before = copy.deepcopy(model.state_dict())
    train(model, some_digits(40), Recipe(epochs=1, batch_size=20, trains=trains))
    assert changed(before, model.state_dict()) == expected


def test_lora_changes_its_maps_and_leaves_a_plain_model():
    model = small_model()
    before = copy.deepcopy(model.state_dict())
    recipe = Recipe(epochs=1, batch_size=20, trains="lora", lora=LowRank(targets=("qkv",)))
    history = train(model, some_digits(40), recipe)
    after = model.state_dict()
    assert list(after) == list(before)
    names = {n for n, weight in before.items() if not torch.equal(weight, after[n])}
    assert names == {*(f"blocks.{i}.attn.qkv.weight" for i in range(3)), "head.weight", "head.bias"}
    assert history.parameters == 3 * 8 * (24 + 72) + 10 * 25


def test_low_rank_updates_are_those_of_peft():
    torch.manual_seed(0)
    ours = small_model()
    theirs = peft.inject_adapter_in_model(
        peft.LoraConfig(r=4, lora_alpha=8, target_modules=["qkv", "fc1"]), small_model()
    )
    add_adapters(ours, LowRank(rank=4, alpha=8, targets=("qkv", "fc1")))
    pairs = [
        (mine, other)
        for name, mine in ours.named_modules()
        if hasattr(mine, "down")
        for path, other in theirs.named_modules()
        if path == name
    ]
    assert len(pairs) == 6
    with torch.no_grad():
        for mine, other in pairs:
            nn.init.normal_(mine.up)
            other.lora_A["default"].weight.copy_(mine.down)
            other.lora_B["default"].weight.copy_(mine.up)
    pixels = torch.randn(3, 1, 8, 8)
    expected = theirs(pixels)
    assert torch.allclose(ours(pixels), expected, atol=1e-5)
    assert torch.allclose(plain_copy(ours)(pixels), expected, atol=1e-4)
    assert len(list(ours.parameters())) > len(list(small_model().parameters()))
    assert torch.allclose(merge_adapters(ours)(pixels), expected, atol=1e-4)
    with pytest.raises(Refusal, match="no block has a linear map named nothing"):
        add_adapters(small_model(), LowRank(targets=("nothing",)))


def test_prompts_learn_beside_a_frozen_model(tmp_path):
    model, card = small_model(TOPK), small_card(TOPK)
    prompted, new_card = add_prompts(model, card, 3)
    assert prompted.num_prefix_tokens == 4
    layer = prompted.blocks[1].mlp
    assert layer.prefix == 4
    before = copy.deepcopy(prompted.state_dict())
    train(prompted, some_digits(40), Recipe(epochs=1, batch_size=20, trains="prompts"))
    assert changed(before, prompted.state_dict()) == {"reg_token", "head.weight", "head.bias"}
    save_checkpoint(tmp_path / "p.safetensors", prompted, new_card)
    read, _ = load_checkpoint(tmp_path / "p.safetensors")
    pixels = torch.randn(2, 1, 8, 8)
    assert torch.equal(read(pixels), prompted(pixels))
    with pytest.raises(Refusal, match="register tokens already"):
        add_prompts(prompted, new_card, 3)
    with pytest.raises(Refusal, match="make one with"):
        choose_trained(model, "prompts")


def test_prompts_begin_where_the_model_was():
    """Patch and class tokens keep their places; prompts alone come in between."""
    model, card = small_model(), small_card()
    prompted, _ = add_prompts(model, card, 2)
    old, new = model.pos_embed, prompted.pos_embed
    assert torch.equal(new[:, :1], old[:, :1])
    assert torch.equal(new[:, 1:3], torch.zeros(1, 2, 24))
    assert torch.equal(new[:, 3:], old[:, 1:])


@pytest.mark.parametrize("trains", ["lora", "prompts", "router"])
def test_a_run_in_each_mode_gives_a_checkpoint_that_can_be_read(tmp_path, trains):
    config = small_config("epochs=1", f"trains={trains}", "auxiliary={}", "drop_path=0.0")
    history = train_run(config, tmp_path / "run")
    model, card = load_checkpoint(tmp_path / "run" / "best.safetensors")
    assert card.spec.layers == (1,)
    assert 0 < history.parameters < sum(p.numel() for p in model.parameters())


def test_a_new_head_keeps_everything_else():
    model, card = small_model(SOFT), small_card(SOFT)
    fresh, new_card = with_new_head(model, card, ("cat", "dog", "owl"))
    assert new_card.classes == ("cat", "dog", "owl")
    assert fresh.head.out_features == 3
    old, new = model.state_dict(), fresh.state_dict()
    assert all(torch.equal(old[name], new[name]) for name in old if not name.startswith("head"))
