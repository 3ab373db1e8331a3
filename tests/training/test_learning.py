"""Parts of an update: accumulation, running mean, mixing, precision, depth, contrast, gauges."""

import copy
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from routelab.data import InMemory
from routelab.models import moe_layers
from routelab.records import (
    ExpertChoiceRouting,
    ExpertGroup,
    MoESpec,
    Refusal,
    SpheroRouting,
    TopKRouting,
)
from routelab.training import Contrastive, Mixing, Recipe, Update, train
from routelab.training.contrastive import contrastive_terms
from routelab.training.depth import set_drop_path
from routelab.training.gauges import RoutingGauge, logit_scales
from routelab.training.mixing import Mixer
from routelab.training.norms import GradientNorms
from routelab.training.parameters import rate_scales
from routelab.training.trainer import Trainer
from tests.training.small_models import TOPK, small_model, some_digits

CPU = torch.device("cpu")


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def test_accumulated_batches_make_the_update_of_one_large_batch():
    models = [small_model(), small_model()]
    data = some_digits(50)
    train(models[0], data, Recipe(epochs=1, batch_size=20, learning_rate=1e-4))
    recipe = Recipe(epochs=1, batch_size=10, accumulation=2, learning_rate=1e-4)
    history = train(models[1], data, recipe)
    assert history.last.update == 3
    assert torch.allclose(weights(models[0]), weights(models[1]), atol=2e-6)


def test_the_running_mean_of_the_weights_is_kept():
    model = small_model()
    recipe = Recipe(epochs=1, batch_size=10, ema=0.5)
    trainer = Trainer(model, some_digits(30), recipe, device=CPU)
    mean = weights(model).clone()
    for event in trainer.run():
        if isinstance(event, Update):
            mean = 0.5 * mean + 0.5 * weights(model)
    assert torch.allclose(weights(trainer.best_model), mean, atol=1e-6)
    other = small_model()
    train(other, some_digits(30), recipe)
    assert torch.equal(weights(other), weights(trainer.best_model))


def test_mixing_depends_on_seed_and_batch_alone_and_keeps_an_odd_image():
    recipe = Recipe(mixing=Mixing(mixup=0.8, cutmix=1.0), label_smoothing=0.1)
    mixer = Mixer(recipe, 4, rank=0)
    pixels, labels = torch.randn(5, 1, 8, 8), torch.tensor([0, 1, 2, 3, 0])
    np.random.seed(1)  # noqa: NPY002
    first = mixer(pixels, labels, 7)
    np.random.seed(2)  # noqa: NPY002
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    second = mixer(pixels, labels, 7)
    assert (np.random.get_state()[1] == state).all()  # noqa: NPY002
    assert torch.equal(first[0], second[0])
    assert torch.equal(first[1], second[1])
    assert not torch.equal(first[0], mixer(pixels, labels, 8)[0])
    mixed, targets = first
    assert torch.equal(mixed[4], pixels[4])
    assert torch.allclose(targets.sum(1), torch.ones(5))
    assert targets[4].tolist() == pytest.approx([0.925, 0.025, 0.025, 0.025])


def test_bfloat16_trains_and_float16_asks_for_cuda():
    recipe = Recipe(epochs=1, batch_size=20, precision="bfloat16")
    history = train(small_model(TOPK), some_digits(40), recipe)
    assert math.isfinite(history.last.loss)
    with pytest.raises(Refusal, match="float16 training needs CUDA"):
        train(small_model(), some_digits(40), Recipe(precision="float16"))


def test_depth_is_dropped_in_training_only():
    model = small_model()
    pixels = torch.randn(64, 1, 8, 8)
    before = model(pixels)
    set_drop_path(model, 0.5)
    assert [block.drop_path1.drop_prob for block in model.blocks] == [0.0, 0.25, 0.5]
    assert torch.equal(model.eval()(pixels), before)
    assert not torch.equal(model.train()(pixels), before)


def test_layers_below_learn_slower_and_moe_parts_do_not():
    scales = rate_scales(small_model(TOPK), 0.5)
    assert scales["head.weight"] == 1
    assert scales["blocks.2.attn.qkv.weight"] == 0.5
    assert scales["blocks.1.attn.qkv.weight"] == 0.25
    assert scales["blocks.1.norm1.weight"] == 0.25
    assert scales["blocks.1.norm2.weight"] == 1
    assert scales["blocks.1.mlp.router.gate.weight"] == 1
    assert scales["blocks.1.mlp.experts.banks.routed.fc1_weight"] == 1
    assert scales["blocks.0.mlp.fc1.weight"] == 0.125
    assert scales["blocks.0.norm2.weight"] == 0.125
    assert scales["patch_embed.proj.weight"] == 0.0625
    history = train(small_model(TOPK), some_digits(40), Recipe(epochs=1, layer_decay=0.5))
    assert history.last.smallest_rate == pytest.approx(history.last.learning_rate / 16)


def test_gradient_norms_add_up_and_clip():
    model = small_model(TOPK).train()
    model(torch.randn(8, 1, 8, 8)).square().sum().backward()
    norms = GradientNorms(model)
    parts = norms.measure()
    assert norms.names == ("router", "experts", "rest")
    whole = parts.square().sum().sqrt()
    expected = nn.utils.clip_grad_norm_(model.parameters(), float("inf"))
    assert whole.item() == pytest.approx(expected.item(), rel=1e-5)
    layers = moe_layers(model).values()
    routers = [p.grad.flatten() for layer in layers for p in layer.router.parameters()]
    assert parts[0].item() == pytest.approx(torch.cat(routers).norm().item(), rel=1e-5)
    norms.clip(whole, 0.1)
    assert norms.measure().norm().item() == pytest.approx(0.1, rel=1e-3)


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 9), st.integers(1, 3), st.integers(0, 1000))
def test_the_contrastive_loss_is_its_formula(images, classes, seed):
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(images, 4, generator=generator, dtype=torch.float64)
    labels = torch.randint(classes, (images,), generator=generator)
    z = features / features.norm(dim=1, keepdim=True)
    expected = []
    for i in range(images):
        others = [a for a in range(images) if a != i]
        same = [p for p in others if labels[p] == labels[i]]
        below = sum(math.exp(float(z[i] @ z[a]) / 0.1) for a in others)
        if same:
            terms = [math.log(math.exp(float(z[i] @ z[p]) / 0.1) / below) for p in same]
            expected.append(-sum(terms) / len(same))
    found = contrastive_terms(features, labels, 0.1)
    assert found.tolist() == pytest.approx(expected, abs=1e-4)


def test_the_contrastive_loss_draws_classes_together():
    recipe = Recipe(epochs=3, batch_size=50, contrastive=Contrastive(weight=0.5))
    history = train(small_model(), some_digits(200), recipe)
    first, last = (epoch.parts["contrastive"] for epoch in (history.epochs[0], history.last))
    assert last < first
    with pytest.raises(ValueError, match="one class an image"):
        Recipe(contrastive=Contrastive(weight=0.5), mixing=Mixing(mixup=0.8))


@pytest.mark.parametrize(
    "router",
    [
        TopKRouting(k=2, capacity_factor=0.5),
        ExpertChoiceRouting(),
        SpheroRouting(),
    ],
)
def test_the_gauge_counts_what_routers_did(router):
    slots = 2 if router.kind == "sphero" else 1
    groups = (
        ExpertGroup(name="core", experts=2, slots=slots),
        ExpertGroup(name="more", experts=3, hidden_ratio=1.0, slots=1),
    )
    model = small_model(MoESpec(layers=(1,), router=router, groups=groups)).train()
    gauge = RoutingGauge(model, CPU)
    seen = []
    layer = model.blocks[1].mlp
    handle = layer.router.register_forward_hook(lambda _m, _i, routing: seen.append(routing))
    with gauge.watching():
        for _ in range(2):
            model(torch.randn(4, 1, 8, 8))
    handle.remove()
    routed = gauge.read()["01"]
    if router.kind == "sphero":
        owner = [0, 0, 1, 1, 2, 3, 4]
        mass = torch.cat([r.combine for r in seen]).sum((0, 1))
        load = torch.zeros(5).index_add(0, torch.tensor(owner), mass)
        assert routed.dropped is None
        assert set(logit_scales(model)) == {"01.dispatch_temperature", "01.combine_temperature"}
    else:
        kept = torch.cat([r.expert[r.slot >= 0] for r in seen])
        load = torch.bincount(kept, minlength=5).float()
        slots = torch.cat([r.slot for r in seen])
        dropped = None if router.kind == "expert_choice" else (slots < 0).float().mean().item()
        assert routed.dropped == (None if dropped is None else pytest.approx(dropped))
    assert routed.load == pytest.approx((load / load.sum()).tolist(), rel=1e-5)
    gauge.clear()
    with torch.no_grad(), gauge.watching():
        model.eval()(torch.randn(4, 1, 8, 8))
    assert gauge.read() == {}


def test_dead_experts_are_counted():
    model = small_model(TOPK).train()
    with torch.no_grad():
        model.blocks[1].mlp.router.gate.weight.zero_()
    model.blocks[1].mlp.router.noise_std = 0.0
    gauge = RoutingGauge(model, CPU)
    with gauge.watching():
        model(torch.randn(4, 1, 8, 8))
    routed = gauge.read()["01"]
    assert routed.load == (1.0, 0.0, 0.0, 0.0)
    assert routed.dead == 3
    assert routed.load_entropy == 0
    assert routed.token_entropy == pytest.approx(math.log(4))


def test_images_held_in_memory_cannot_be_drawn_as_pictures():
    data = some_digits(20)
    assert isinstance(data, InMemory)
    with pytest.raises(Refusal, match="held decoded"):
        train(small_model(), data, Recipe(pictures={}))
    model = copy.deepcopy(small_model())
    train(model, data.images, Recipe(epochs=1, batch_size=10, pictures={"smallest_crop": 0.5}))
