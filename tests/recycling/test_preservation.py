"""Nothing is lost where nothing changed; what is lost is measured, block by block."""

import numpy as np
import pytest
import torch

from routelab.metrics import linear_cka
from routelab.records import ExpertGroup, MoESpec, TopKRouting
from routelab.recycling import RecycleOptions, function_preservation, recycle

TOP1 = TopKRouting(k=1, renormalize=True)


def spec(experts, ratio, layers=(1, 2)):
    group = ExpertGroup(experts=experts, hidden_ratio=ratio)
    return MoESpec(layers=layers, router=TOP1, groups=(group,))


@pytest.mark.parametrize(("name", "blocks"), [("vit", 3), ("convnext", 5)])
def test_copies_lose_nothing(request, images, name, blocks):
    source = request.getfixturevalue(name)
    model = recycle(source, spec(3, 4.0), RecycleOptions(method="copy")).model
    found = function_preservation(source, model, images, batch_size=10)
    assert [layer.layer for layer in found] == [f"{i:02d}" for i in range(blocks)]
    assert [layer.moe for layer in found[:3]] == [False, True, True]
    for layer in found:
        assert layer.cka == pytest.approx(1, abs=1e-6)
        assert layer.error == pytest.approx(0, abs=1e-5)
        assert np.isnan(layer.alone) if not layer.moe else layer.alone < 1e-5


def test_errors_are_those_of_the_outputs(vit, images):
    model = recycle(vit, spec(2, 1.0), RecycleOptions(method="random")).model
    found = function_preservation(vit, model, images, batch_size=7)
    outputs = {}
    for who, net in (("dense", vit.model), ("moe", model)):
        for depth in (0, 2):
            net.blocks[depth].register_forward_hook(
                lambda _m, _i, out, key=(who, depth): outputs.__setitem__(key, out)
            )
    pixels = next(images.batches(len(images))).pixels
    with torch.no_grad():
        vit.model(pixels)
        model(pixels)
    for block in vit.model.blocks:
        block._forward_hooks.clear()
    wanted, other = outputs["dense", 2], outputs["moe", 2]
    assert found[2].error == pytest.approx(float((wanted - other).norm() / wanted.norm()), rel=1e-5)
    spaced = torch.linspace(0, 16, 16).round().long()
    sides = (side[:, spaced].flatten(0, 1).numpy() for side in (wanted, other))
    assert found[2].cka == pytest.approx(linear_cka(*sides), rel=1e-5)
    assert found[0].error == 0
    assert found[1].alone > 0


def test_a_narrower_model_is_compared_on_its_channels(wide_vit, convnext, images):
    for source, width in ((wide_vit, 24), (convnext, 4)):
        model = recycle(source, spec(2, 2.0), RecycleOptions(method="random", width=width)).model
        found = function_preservation(source, model, images)
        assert all(layer.error > 0 for layer in found)
        assert all(-1 < layer.cka < 1 for layer in found)
