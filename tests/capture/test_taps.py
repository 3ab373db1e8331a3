import pytest
import torch

from routelab.capture.taps import Taps, uncompiled
from routelab.models import build, moe_layers, router_specs
from routelab.records import Refusal
from tests.capture.small import ROUTERS, model_card


@pytest.fixture
def tapped():
    card = model_card("topk")
    model = build(card, seed=0)
    return model, moe_layers(model), tuple(router_specs(model, card).values())


def hooks(model):
    return sum(
        len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules()
    )


@pytest.mark.parametrize("kind", ROUTERS)
def test_hooks_change_nothing_and_leave_no_trace(kind):
    card = model_card(kind)
    model = build(card, seed=0)
    layers, specs = moe_layers(model), tuple(router_specs(model, card).values())
    pixels = torch.randn(3, 3, 32, 32)
    seen = []
    with torch.inference_mode():
        before = model(pixels)
        with Taps(layers, specs, lambda sight: seen.append(sight)) as taps:
            during = model(pixels)
            taps.check()
        after = model(pixels)
    assert torch.equal(before, during)
    assert torch.equal(before, after)
    assert hooks(model) == 0
    assert [sight.spec.key for sight in seen] == ["01", "02"]
    assert seen[0].inputs.shape == seen[0].outputs.shape == (3, 17, 48)
    for sight in seen:
        with torch.inference_mode():
            again = sight.layer.replay(sight.inputs, sight.routing)
        torch.testing.assert_close(again, sight.outputs, rtol=0, atol=1e-6)


def test_hooks_are_removed_when_the_forward_pass_fails(tapped):
    model, layers, specs = tapped
    with pytest.raises(RuntimeError), Taps(layers, specs, lambda sight: None):
        model(torch.randn(1, 7, 32, 32))
    assert hooks(model) == 0


def test_a_layer_that_did_not_run_is_named(tapped):
    _, layers, specs = tapped
    with Taps(layers, specs, lambda sight: None) as taps:
        layers[specs[0].layer](torch.randn(1, 17, 48))
        with pytest.raises(Refusal, match=r"blocks\.2\.mlp ran never"):
            taps.check()


def test_a_layer_that_ran_twice_is_named(tapped):
    model, layers, specs = tapped
    with Taps(layers, specs, lambda sight: None) as taps:
        model(torch.randn(1, 3, 32, 32))
        layers[specs[1].layer](torch.randn(1, 17, 48))
        with pytest.raises(Refusal, match=r"blocks\.2\.mlp ran 2 times"):
            taps.check()
        model(torch.randn(1, 3, 32, 32))
        taps.check()


def test_a_layer_whose_tokens_change_is_named(tapped):
    _, layers, specs = tapped
    with (
        Taps(layers, specs, lambda sight: None),
        pytest.raises(Refusal, match=r"blocks\.1\.mlp routed 9 tokens where 17"),
    ):
        layers[specs[0].layer](torch.randn(1, 9, 48))


class Wrapped(torch.nn.Module):
    """Looks like what torch.compile returns."""

    def __init__(self, module):
        super().__init__()
        self._orig_mod = module


def test_a_compiled_model_is_unwrapped(tapped):
    model, _, _ = tapped
    assert uncompiled(Wrapped(model)) is model
    assert uncompiled(model) is model


def test_a_model_with_a_compiled_part_is_refused(tapped):
    model, _, _ = tapped
    model.blocks[1] = Wrapped(model.blocks[1])
    with pytest.raises(Refusal, match=r"module blocks\.1 is compiled"):
        uncompiled(model)
