"""Every tensor of a recycled model is a plain gather from the dense one, written out in NumPy."""

import importlib.util
import itertools
import re

import numpy as np
import pytest
import torch

from routelab.models import lineage_arrays, load_checkpoint, moe_layers, save_checkpoint
from routelab.records import (
    ExpertGroup,
    ImageRouting,
    MoESpec,
    Refusal,
    SoftRouting,
    SpheroRouting,
    TopKRouting,
)
from routelab.recycling import RecycleOptions, activation_statistics, recycle
from routelab.recycling.selection import FALLBACK
from tests.recycling.small import dense_source, vit_card

GROUPS = (
    ExpertGroup(name="core", experts=5, hidden_ratio=2.0),
    ExpertGroup(name="universal", experts=3, hidden_ratio=0.5),
)
METHODS = ["random", "uniform", "importance", "graph", "copy"]


def spec(layers=(1, 2), router=None, groups=GROUPS, **more):
    return MoESpec(layers=layers, router=router or SoftRouting(), groups=groups, **more)


def arrays(model):
    return {name: np.asarray(tensor) for name, tensor in model.state_dict().items()}


def measured(source, images):
    return activation_statistics(source.model, images, coactivation="firing")


def check_experts(model, origin, paths):
    """Each weight of each expert, one by one, from the lineage's indices."""
    dense, moe, kept = arrays(origin.model), arrays(model), lineage_arrays(model)
    for path in moe_layers(model):
        depth = paths.index(path)
        w1, b1, w2, b2 = (
            dense[f"{path}.{part}"] for part in ("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias")
        )
        for name in kept:
            found = re.fullmatch(rf"layer_{depth:02d}_neurons_(\w+)", name)
            if not found:
                continue
            group = found[1]
            bank = f"{path}.shared.bank" if group == "shared" else f"{path}.experts.banks.{group}"
            common = kept.get(f"layer_{depth:02d}_channels", np.arange(w1.shape[1]))
            own = kept.get(f"layer_{depth:02d}_channels_{group}")
            for expert, neurons in enumerate(kept[name]):
                channels = common if own is None else own[expert]
                for place, neuron in enumerate(neurons):
                    row = moe[f"{bank}.fc1_weight"][expert, :, place]
                    np.testing.assert_array_equal(row, w1[neuron][channels])
                    column = moe[f"{bank}.fc2_weight"][expert, place]
                    np.testing.assert_array_equal(column, w2[:, neuron][channels])
                np.testing.assert_array_equal(moe[f"{bank}.fc1_bias"][expert], b1[neurons])
                np.testing.assert_array_equal(moe[f"{bank}.fc2_bias"][expert], b2[channels])


def check_body(model, body):
    """Everything outside the MoE layers: equal, or cut by the indices of the lineage."""
    dense, moe, kept = arrays(body.model), arrays(model), lineage_arrays(model)
    inside = ("lineage.", *(f"{path}." for path in moe_layers(model)))
    outside = [name for name in moe if not name.startswith(inside)]
    assert outside
    for name in outside:
        want = dense[name]
        for dim, index in enumerate(indices_of(name, kept, want)):
            want = np.take(want, index, axis=dim)
        np.testing.assert_array_equal(moe[name], want, err_msg=name)


def indices_of(name, kept, weight):
    """Indices along each dimension of a ViT's weight, by what the weight is."""
    every = [np.arange(size) for size in weight.shape]
    if "body_width" not in kept:
        return every
    width, attention = kept["body_width"], kept["body_attention"]
    qkv = np.concatenate([attention + part * 48 for part in range(3)])
    if name in ("cls_token", "pos_embed"):
        return [*every[:2], width]
    if name.startswith("patch_embed"):
        return [width, *every[1:]]
    if name.startswith("head"):
        return [every[0], width][: len(every)]
    if "attn.qkv" in name:
        return [qkv, width][: len(every)]
    if "attn.proj" in name:
        return [width, attention][: len(every)]
    if "mlp" in name:
        hidden = kept[f"body_hidden_{name.split('.')[1]}"]
        return ([hidden, width] if "fc1" in name else [width, hidden])[: len(every)]
    return [width]


def mlp_paths(source):
    return [f"blocks.{i}.mlp" for i in range(3)]


@pytest.mark.parametrize("method", METHODS)
def test_same_width(vit, images, method):
    statistics = measured(vit, images)
    model, card, _ = recycle(vit, spec(), RecycleOptions(method=method), statistics=statistics)
    assert card.lineage.available == {"01": 96, "02": 96}
    assert lineage_arrays(model)["layer_01_neurons_core"].shape == (5, 48)
    assert "layer_01_channels" not in lineage_arrays(model)
    check_experts(model, vit, mlp_paths(vit))
    check_body(model, vit)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("mode", ["shared", "expert"])
@pytest.mark.parametrize("qkv", ["heads", "released"])
def test_narrower(wide_vit, images, method, mode, qkv):
    options = RecycleOptions(method=method, width=24, channel_mode=mode, qkv=qkv)
    groups = (*GROUPS[:1], ExpertGroup(name="universal", experts=3, hidden_ratio=1.0))
    model, card, _ = recycle(
        wide_vit,
        spec(groups=groups, shared=ExpertGroup(name="shared", experts=2)),
        options,
        statistics=measured(wide_vit, images),
    )
    assert card.arguments["embed_dim"] == 24
    assert card.arguments["num_heads"] == 3
    kept = lineage_arrays(model)
    if mode == "shared":
        np.testing.assert_array_equal(kept["layer_01_channels"], kept["body_width"])
    else:
        assert kept["layer_01_channels_core"].shape == (5, 24)
    if qkv == "released":
        np.testing.assert_array_equal(kept["body_attention"], kept["body_width"])
    else:
        heads = kept["body_attention"].reshape(3, 8) // 8
        assert heads.tolist() == [[0] * 8, [2] * 8, [4] * 8]
    check_experts(model, wide_vit, mlp_paths(wide_vit))
    check_body(model, wide_vit)
    model(torch.zeros(1, 1, 32, 32))


@pytest.mark.parametrize("method", METHODS)
def test_two_sources(vit, wide_vit, images, method):
    model, card, _ = recycle(
        vit,
        spec(),
        RecycleOptions(method=method),
        experts=wide_vit,
        statistics=measured(wide_vit, images),
    )
    assert card.lineage.body.sha256 == vit.sha256
    assert card.lineage.experts.sha256 == wide_vit.sha256
    assert card.lineage.available["01"] == 192
    assert lineage_arrays(model)["layer_01_channels"].shape == (24,)
    check_experts(model, wide_vit, mlp_paths(vit))
    check_body(model, vit)


@pytest.mark.parametrize("method", METHODS)
def test_convnext(convnext, images, method):
    model, _, _ = recycle(
        convnext,
        spec(layers=(2, 3)),
        RecycleOptions(method=method),
        statistics=measured(convnext, images),
    )
    paths = ["stages.0.blocks.0.mlp", "stages.1.blocks.0.mlp"]
    paths += ["stages.2.blocks.0.mlp", "stages.2.blocks.1.mlp", "stages.3.blocks.0.mlp"]
    assert list(moe_layers(model)) == paths[2:4]
    check_experts(model, convnext, paths)
    check_body(model, convnext)
    model(torch.zeros(1, 1, 32, 32))


def test_a_narrower_convnext(convnext, images):
    model, card, _ = recycle(
        convnext,
        spec(layers=(2, 4)),
        RecycleOptions(method="importance", width=4),
        statistics=measured(convnext, images),
    )
    assert tuple(card.arguments["dims"]) == (4, 8, 12, 16)
    dense, moe, kept = arrays(convnext.model), arrays(model), lineage_arrays(model)
    stage = [kept[f"body_width_{number}"] for number in range(4)]
    assert [len(index) for index in stage] == [4, 8, 12, 16]
    np.testing.assert_array_equal(kept["layer_04_channels"], stage[3])
    check_experts(
        model,
        convnext,
        [f"stages.{s}.blocks.{b}.mlp" for s, b in ((0, 0), (1, 0), (2, 0), (2, 1), (3, 0))],
    )
    cuts = {
        "stem.0.weight": (stage[0],),
        "stem.1.bias": (stage[0],),
        "stages.1.downsample.0.weight": (stage[0],),
        "stages.1.downsample.1.weight": (stage[1], stage[0]),
        "stages.2.blocks.1.conv_dw.weight": (stage[2],),
        "stages.2.blocks.1.gamma": (stage[2],),
        "stages.2.blocks.1.mlp.fc1.weight": (kept["body_hidden_3"], stage[2]),
        "stages.2.blocks.1.mlp.fc2.weight": (stage[2], kept["body_hidden_3"]),
        "head.norm.weight": (stage[3],),
    }
    for name, cut in cuts.items():
        want = dense[name]
        for dim, index in enumerate(cut):
            want = np.take(want, index, axis=dim)
        np.testing.assert_array_equal(moe[name], want, err_msg=name)
    np.testing.assert_array_equal(moe["head.fc.weight"], dense["head.fc.weight"][:, stage[3]])
    model(torch.zeros(1, 1, 32, 32))


@pytest.mark.parametrize("name", ["vit", "convnext"])
@pytest.mark.parametrize("method", METHODS)
def test_one_expert_of_all_neurons_is_the_dense_model(request, images, name, method):
    source = request.getfixturevalue(name)
    one = spec(router=TopKRouting(k=1, renormalize=True), groups=(ExpertGroup(experts=1),))
    statistics = measured(source, images)
    model, _, _ = recycle(source, one, RecycleOptions(method=method), statistics=statistics)
    pixels = next(images.batches(16)).pixels
    with torch.inference_mode():
        torch.testing.assert_close(model(pixels), source.model(pixels), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    "router", [SoftRouting(), SpheroRouting(), TopKRouting(k=2), ImageRouting(source="class")]
)
def test_any_router_is_kept_through_a_checkpoint(vit, images, router, tmp_path):
    model, card, _ = recycle(vit, spec(router=router), RecycleOptions(method="random", seed=4))
    save_checkpoint(tmp_path / "moe.safetensors", model, card)
    again, read = load_checkpoint(tmp_path / "moe.safetensors")
    assert read.lineage == card.lineage
    pixels = next(images.batches(4)).pixels
    with torch.inference_mode():
        torch.testing.assert_close(again(pixels), model(pixels))
    for name, indices in lineage_arrays(model).items():
        np.testing.assert_array_equal(lineage_arrays(again)[name], indices)


def test_the_same_seed_gives_the_same_model(vit):
    options = RecycleOptions(method="random", seed=7, noise=0.1)
    first, second = (arrays(recycle(vit, spec(), options).model) for _ in range(2))
    for name, weight in first.items():
        np.testing.assert_array_equal(weight, second[name])
    other = arrays(recycle(vit, spec(), options.model_copy(update={"seed": 8})).model)
    name = "lineage.layer_01_neurons_core"
    assert not np.array_equal(first[name], other[name])


def test_noise_makes_copies_differ(vit):
    copies = spec(groups=(ExpertGroup(experts=3),))
    exact, noisy = (
        arrays(recycle(vit, copies, RecycleOptions(method="copy", noise=noise)).model)
        for noise in (0.0, 0.05)
    )
    name = "blocks.1.mlp.experts.banks.routed.fc1_weight"
    np.testing.assert_array_equal(exact[name][0], exact[name][1])
    for first, second in itertools.combinations(noisy[name], 2):
        assert not np.allclose(first, second)
    spread = (noisy[name] - exact[name]).std() / exact[name].std()
    assert spread == pytest.approx(0.05, rel=0.1)


def test_dense_hidden_neurons_follow_importance(wide_vit, images):
    options = RecycleOptions(method="importance", width=24)
    statistics = measured(wide_vit, images)
    model, _, _ = recycle(wide_vit, spec(), options, statistics=statistics)
    score = statistics.layers[0].score("l2")
    kept = lineage_arrays(model)["body_hidden_0"]
    assert kept.tolist() == sorted(np.argsort(-score, kind="stable")[:96].tolist())


def test_another_activation_is_noted(images):
    card = vit_card()
    source = dense_source(card)
    for block in source.model.blocks:
        block.mlp.act = torch.nn.ReLU()
    notes = recycle(source, spec(), RecycleOptions(method="copy")).notes
    assert len(notes) == 1
    assert "ReLU" in notes[0]


def test_without_pymetis_one_note_says_so(vit, images, monkeypatch):
    statistics = measured(vit, images)
    assert recycle(vit, spec(), RecycleOptions(method="graph"), statistics=statistics).notes == ()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    found = recycle(vit, spec(), RecycleOptions(method="graph"), statistics=statistics)
    assert found.notes == (FALLBACK,)
    assert found.card.lineage.options["partitioner"] == "spectral"


def test_experts_of_all_neurons_are_noted_as_copies(vit):
    groups = (ExpertGroup(name="core", experts=2), GROUPS[1])
    notes = recycle(vit, spec(groups=groups), RecycleOptions(method="random")).notes
    assert len(notes) == 1
    assert "every expert of group core takes all 96 neurons" in notes[0]
    assert recycle(vit, spec(groups=groups), RecycleOptions(method="copy")).notes == ()


def test_a_second_body_is_narrowed_evenly_and_says_so(wide_vit, images):
    other = dense_source(vit_card(48, 6), seed=9)
    options = RecycleOptions(width=24)
    statistics = measured(other, images)
    model, _, notes = recycle(wide_vit, spec(), options, experts=other, statistics=statistics)
    assert len(notes) == 1
    assert "evenly spaced" in notes[0]
    kept = lineage_arrays(model)
    assert kept["body_width"].tolist() == list(range(0, 48, 2))
    assert kept["layer_01_channels"].tolist() != kept["body_width"].tolist()
    check_experts(model, other, mlp_paths(other))
    check_body(model, wide_vit)


@pytest.mark.parametrize(
    ("change", "options", "says"),
    [
        ({}, {"width": 48, "method": "random"}, "has width 24 and cannot give a model of width 48"),
        ({"layers": (1, 9)}, {"method": "random"}, "layer 9 is out of range"),
        (
            {"groups": (ExpertGroup(experts=2, hidden_ratio=5.0),)},
            {"method": "random"},
            "an expert of 120 hidden neurons cannot be recycled from an MLP of 96",
        ),
        ({}, {"method": "importance"}, "needs activation statistics"),
        ({}, {"method": "graph"}, "needs activation statistics"),
        ({}, {"method": "random", "width": 13}, "width 13 cannot be made of 3 of the source's 3"),
    ],
)
def test_what_does_not_fit_is_refused(vit, change, options, says):
    with pytest.raises(Refusal, match=says):
        recycle(vit, spec(**change), RecycleOptions(**options))


def test_a_vit_and_a_convnext_do_not_mix(vit, convnext):
    with pytest.raises(Refusal, match="a ViT and a ConvNeXt do not mix"):
        recycle(vit, spec(), RecycleOptions(method="random"), experts=convnext)


def test_convnexts_of_other_proportions(convnext):
    arguments = convnext.card.arguments | {"dims": (8, 16, 32, 64)}
    other = dense_source(convnext.card.model_copy(update={"arguments": arguments}))
    with pytest.raises(Refusal, match="take a source whose stages have the body's proportions"):
        recycle(convnext, spec(layers=(2,)), RecycleOptions(method="random"), experts=other)


def test_a_source_narrower_than_the_body(vit, wide_vit):
    with pytest.raises(Refusal, match="has width 24 and cannot fill a layer of width 48"):
        recycle(wide_vit, spec(), RecycleOptions(method="random"), experts=vit)
