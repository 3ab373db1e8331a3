"""Each MoE layer against its equation in float64, its gradient, and the laws that it must obey."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from routelab.models import MoELayer, SoftWeights, SparseChoice
from routelab.records import (
    ExpertChoiceRouting,
    ExpertGroup,
    ImageRouting,
    MoESpec,
    SoftRouting,
    SpheroRouting,
    TopKRouting,
)
from tests.models import equations as eq

WIDTH = 8
EVEN = (ExpertGroup(experts=4, hidden_ratio=1.5),)
DUAL = (
    ExpertGroup(name="core", experts=2, hidden_ratio=2.0, slots=2),
    ExpertGroup(name="universal", experts=3, hidden_ratio=0.5),
)
DUAL_SPARSE = (DUAL[0].model_copy(update={"slots": 1}), DUAL[1])
SOFT = [
    SoftRouting(),
    SpheroRouting(preset="released"),
    SpheroRouting(preset="paper"),
    SpheroRouting(preset="released", normalize_queries=False),
    SpheroRouting(preset="paper", normalize_queries=False),
]
SPARSE = [
    TopKRouting(k=1),
    TopKRouting(k=2, renormalize=True),
    TopKRouting(k=2, capacity_factor=0.5),
    TopKRouting(k=2, capacity_factor=0.6, batch_priority=True),
    ExpertChoiceRouting(capacity_factor=1.5),
]


def layer_of(router, groups, *, shared=False, prefix=1, **regularisers):
    torch.manual_seed(0)
    spec = MoESpec(
        layers=(0,),
        router=router,
        groups=groups,
        shared=ExpertGroup(name="shared", experts=2, hidden_ratio=1.0) if shared else None,
        **regularisers,
    )
    layer = MoELayer(WIDTH, spec, prefix=prefix).double().eval()
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            if not name.endswith(("temperature", "scale")):
                parameter.copy_(torch.randn_like(parameter) * 0.7)
    return layer


def tokens_of(images=3, tokens=7):
    return torch.randn(
        images, tokens, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(1)
    )


def arrays(module):
    return {name: p.detach().numpy() for name, p in module.named_parameters()}


def banks_of(layer):
    return [arrays(bank) for bank in layer.experts.banks.values()]


def shared_output(layer, tokens):
    bank = arrays(layer.shared.bank)
    return np.stack([np.mean([eq.expert(x, bank, e) for e in range(2)], axis=0) for x in tokens])


def soft_weights(layer, tokens):
    """Dispatch and combine of one image from the router's parameters alone."""
    router, p = layer.router, arrays(layer.router)
    kind = type(router).__name__
    slots = p["mu"].shape[1] if kind == "SoftRouter" else len(p["phi"])
    logits = np.zeros((len(tokens), slots))
    for n, x in enumerate(tokens):
        for s in range(slots):
            if kind == "SoftRouter":
                query = p["scale"] * eq.unit_inside(p["mu"][:, s])
                logits[n, s] = eq.unit_inside(x) @ query
                continue
            query = eq.layer_norm(p["phi"][s], p["slot_norm.weight"], p["slot_norm.bias"])
            if layer.spec.router.normalize_queries:
                query = eq.unit_outside(query)
            key = eq.unit_outside(x) if kind.startswith("Released") else p["key.weight"] @ x
            logits[n, s] = key @ query
    if kind == "SoftRouter":
        return eq.softmax(logits, 0), eq.softmax(logits, 1)
    if kind.startswith("Paper"):
        return eq.softmax(logits / p["temperature"], 0), eq.softmax(logits / p["temperature"], 1)
    rows = logits / p["combine_temperature"]
    return eq.softmax(logits / p["dispatch_temperature"], 0), np.stack(
        [eq.entmax15(r) for r in rows]
    )


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("router", SOFT, ids=str)
def test_soft_layers_equal_their_equation(router, shared):
    layer, tokens = layer_of(router, DUAL, shared=shared), tokens_of()
    out = layer(tokens).detach().numpy()
    for image, answer in zip(tokens.numpy(), out, strict=True):
        dispatch, combine = soft_weights(layer, image)
        expected = eq.soft_output(image, dispatch, combine, banks_of(layer), slots=[2, 1])
        if shared:
            expected = expected + shared_output(layer, image)
        np.testing.assert_allclose(answer, expected, rtol=1e-10, atol=1e-12)


def sparse_choices(layer, image):
    router, config = layer.router, layer.spec.router
    logits = image @ arrays(router)["gate.weight"].T
    if config.kind == "expert_choice":
        return eq.expert_choices(logits, router.capacity(len(image)))
    return eq.top_k_choices(
        logits,
        config.k,
        router.capacity(len(image)),
        by_gate=config.batch_priority,
        renormalize=config.renormalize,
    )


@pytest.mark.parametrize("groups", [EVEN, DUAL_SPARSE], ids=["even", "dual"])
@pytest.mark.parametrize("router", SPARSE, ids=str)
def test_sparse_layers_equal_their_equation(router, groups):
    layer, tokens = layer_of(router, groups, shared=True), tokens_of()
    out = layer(tokens).detach().numpy()
    for image, answer in zip(tokens.numpy(), out, strict=True):
        expected = eq.sparse_output(image, sparse_choices(layer, image), banks_of(layer))
        expected = expected + shared_output(layer, image)
        np.testing.assert_allclose(answer, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("source", ["class", "mean"])
@pytest.mark.parametrize("k", [1, 2])
def test_an_image_level_layer_sends_all_tokens_to_the_images_experts(source, k):
    layer, tokens = layer_of(ImageRouting(k=k, source=source), DUAL_SPARSE), tokens_of()
    out = layer(tokens).detach().numpy()
    for image, answer in zip(tokens.numpy(), out, strict=True):
        summary = image[0] if source == "class" else image[1:].mean(axis=0)
        decided = eq.top_k_choices(summary[None] @ arrays(layer.router)["gate.weight"].T, k)
        choices = {(n, e): gate for n in range(len(image)) for (_, e), gate in decided.items()}
        expected = eq.sparse_output(image, choices, banks_of(layer))
        np.testing.assert_allclose(answer, expected, rtol=1e-10, atol=1e-12)


def test_images_of_a_group_share_the_buffers_and_a_short_group_stands_alone():
    router = TopKRouting(k=1, capacity_factor=0.5, images_per_group=2)
    layer, tokens = layer_of(router, EVEN), tokens_of(images=3)
    out = layer(tokens).detach().numpy()
    for first, last in ((0, 2), (2, 3)):
        group = tokens[first:last].flatten(0, 1).numpy()
        choices = eq.top_k_choices(
            group @ arrays(layer.router)["gate.weight"].T, 1, layer.router.capacity(len(group))
        )
        expected = eq.sparse_output(group, choices, banks_of(layer))
        np.testing.assert_allclose(
            out[first:last].reshape(-1, WIDTH), expected, rtol=1e-10, atol=1e-12
        )


@pytest.mark.parametrize("router", [*SOFT, TopKRouting(k=2), ImageRouting()], ids=lambda r: r.kind)
def test_gradients_pass_gradcheck(router):
    layer = layer_of(router, EVEN, shared=True)
    tokens = tokens_of(images=2, tokens=4).requires_grad_()
    parameters = [p for p in layer.parameters() if p.requires_grad]

    def output(x, *_):
        return layer(x)

    assert torch.autograd.gradcheck(output, (tokens, *parameters), atol=1e-6)


@pytest.mark.parametrize("router", SOFT, ids=lambda r: f"{r.kind}-{getattr(r, 'preset', '')}")
def test_permuting_experts_permutes_the_weights_and_changes_no_output(router):
    groups = (ExpertGroup(experts=4, hidden_ratio=1.0, slots=2),)
    layer, tokens = layer_of(router, groups), tokens_of()
    other, order = copy.deepcopy(layer), torch.tensor([2, 0, 3, 1])
    slots = (order[:, None] * 2 + torch.arange(2)).flatten()
    with torch.no_grad():
        for bank in other.experts.banks.values():
            for parameter in bank.parameters():
                parameter.copy_(parameter[order].clone())
        name, axis = ("mu", 1) if hasattr(other.router, "mu") else ("phi", 0)
        weights = getattr(other.router, name)
        weights.copy_(weights.index_select(axis, slots))
    before, after = layer.router(tokens), other.router(tokens)
    torch.testing.assert_close(after.dispatch, before.dispatch[..., slots])
    torch.testing.assert_close(after.combine, before.combine[..., slots])
    torch.testing.assert_close(other(tokens), layer(tokens), rtol=1e-10, atol=1e-12)


def test_top_k_with_room_for_all_equals_dense_evaluation_of_the_chosen_experts():
    roomy = layer_of(TopKRouting(k=2, capacity_factor=4.0), EVEN)
    tokens = tokens_of()
    choice = roomy.router(tokens)
    assert (choice.slot >= 0).all()
    rows = tokens.flatten(0, 1).expand(4, -1, -1)
    dense = next(iter(roomy.experts.banks.values()))(rows).view(4, 3, 7, WIDTH)
    weights = torch.zeros(3, 7, 4, dtype=torch.float64).scatter(2, choice.expert, choice.gate)
    expected = torch.einsum("bne,ebnd->bnd", weights, dense)
    torch.testing.assert_close(roomy(tokens), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_batched_experts_equal_a_loop_over_single_experts(dtype):
    layer = layer_of(TopKRouting(k=1), (ExpertGroup(experts=4, hidden_ratio=2.0),)).to(dtype)
    bank = next(iter(layer.experts.banks.values()))
    counts = torch.tensor([3, 0, 5, 1])
    rows = torch.randn(9, WIDTH, dtype=dtype)
    singles = []
    for e, part in enumerate(rows.split(counts.tolist())):
        w1, b1, w2, b2 = (
            p[e] for p in (bank.fc1_weight, bank.fc1_bias, bank.fc2_weight, bank.fc2_bias)
        )
        singles.append(nn.functional.gelu(part @ w1 + b1) @ w2 + b2)
    torch.testing.assert_close(bank.of_rows(rows, counts), torch.cat(singles))


def test_a_dropped_token_gets_nothing_from_the_routed_experts():
    layer = layer_of(TopKRouting(k=1, capacity_factor=0.3), EVEN)
    tokens = tokens_of()
    choice = layer.router(tokens)
    dropped = (choice.slot < 0).all(dim=-1)
    assert dropped.any()
    assert (layer(tokens)[dropped] == 0).all()


def test_all_tokens_dropped_is_zero_and_not_a_crash():
    layer = layer_of(TopKRouting(k=1), EVEN)
    choice = layer.router(tokens_of())
    nothing = choice._replace(slot=torch.full_like(choice.slot, -1))
    assert (layer.replay(tokens_of(), nothing) == 0).all()


def test_equal_gates_go_to_the_lowest_expert():
    layer = layer_of(TopKRouting(k=2), EVEN)
    with torch.no_grad():
        layer.router.gate.weight.zero_()
    assert layer.router(tokens_of()).expert.unique().tolist() == [0, 1]


@pytest.mark.parametrize("router", [*SOFT, *SPARSE, ImageRouting()], ids=str)
def test_a_hook_on_the_router_sees_the_routing_and_replay_gives_the_output(router):
    groups = DUAL if router.kind in ("soft", "sphero") else EVEN
    layer, tokens, seen = layer_of(router, groups, shared=True), tokens_of(), []
    with layer.router.register_forward_hook(lambda _m, _i, routing: seen.append(routing)):
        out = layer(tokens)
    assert isinstance(seen[0], SoftWeights | SparseChoice)
    assert torch.equal(layer.replay(tokens, seen[0]), out)


@pytest.mark.parametrize("router", [*SOFT, TopKRouting(k=2), ImageRouting()], ids=lambda r: r.kind)
def test_noise_and_dropout_act_in_training_only(router):
    noisy = router.model_copy(update={"noise": 0.5})
    layer = layer_of(noisy, EVEN, expert_dropout=0.5, drop_path=0.3, hidden_dropout=0.3)
    quiet = layer_of(router.model_copy(update={"noise": 0.0}), EVEN)
    tokens = tokens_of()
    assert torch.equal(layer(tokens), quiet(tokens))
    layer.train()
    assert not torch.allclose(layer(tokens), quiet(tokens))


def test_expert_dropout_turns_whole_experts_off_and_keeps_the_mean():
    layer = layer_of(SoftRouting(), EVEN, expert_dropout=0.5).train()
    slots = torch.randn(2, 4, WIDTH, dtype=torch.float64)
    full = layer.eval().experts(slots)
    torch.manual_seed(3)
    layer.train()
    factors = torch.stack([(layer.experts(slots) / full) for _ in range(400)])
    per_expert = factors[:, 0, :, 0]
    assert torch.allclose(factors, per_expert[:, None, :, None].expand_as(factors))
    assert set(per_expert.flatten().round(decimals=6).tolist()) == {0.0, 2.0}
    assert abs(per_expert.mean() - 1) < 0.1


def test_released_noise_at_evaluation_is_kept_only_when_asked_for():
    quiet = layer_of(SpheroRouting(), EVEN)
    loud = layer_of(SpheroRouting(noise_at_evaluation=True), EVEN)
    tokens = tokens_of()
    assert torch.equal(quiet(tokens), quiet(tokens))
    assert not torch.equal(loud(tokens), loud(tokens))
    assert quiet.router.recipe() is not None
    assert loud.router.recipe() is None


@pytest.mark.parametrize("router", [*SOFT, TopKRouting(k=2), ImageRouting()], ids=lambda r: r.kind)
def test_under_autocast_the_router_stays_in_float32(router):
    layer = layer_of(router, (ExpertGroup(experts=4, hidden_ratio=2.0),)).float()
    tokens, seen = tokens_of().float(), []
    exact = layer(tokens)
    with (
        torch.autocast("cpu", dtype=torch.bfloat16),
        layer.router.register_forward_hook(lambda _m, _i, routing: seen.append(routing)),
    ):
        rough = layer(tokens)
    assert all(t.dtype in (torch.float32, torch.int64) for t in seen[0])
    torch.testing.assert_close(rough.float(), exact, rtol=0.1, atol=0.5)


def test_channels_last_maps_are_routed_as_tokens():
    layer, tokens = layer_of(SoftRouting(), DUAL, prefix=0), tokens_of(tokens=6)
    assert torch.equal(layer(tokens.view(3, 2, 3, WIDTH)), layer(tokens).view(3, 2, 3, WIDTH))


def test_each_expert_is_initialised_by_its_own_fan_in():
    few, many = (
        MoELayer(64, MoESpec(layers=(0,), router=SoftRouting(), groups=(ExpertGroup(experts=n),)))
        for n in (2, 64)
    )
    stds = [layer.experts.banks["routed"].fc1_weight.std().item() for layer in (few, many)]
    assert stds[0] == pytest.approx(stds[1], rel=0.03)
    assert stds[0] == pytest.approx((2 / (64 + 256)) ** 0.5, rel=0.03)
