"""Sums in one pass equal those over all activations at once; files know what they are of."""

import numpy as np
import pytest
import torch

from routelab.records import Refusal
from routelab.recycling.blocks import dense_mlps
from routelab.recycling.sampling import balanced_sample
from routelab.recycling.statistics import activation_statistics, data_fingerprint
from routelab.recycling.statistics_file import load_statistics, save_statistics


def seen_at_once(source, images, depth):
    """Inputs and activations of one MLP over all images, as tables in float64."""
    seen = []
    mlp = dense_mlps(source.model)[depth]
    handles = [
        mlp.mlp.register_forward_pre_hook(lambda _m, inputs: seen.append(inputs[0])),
        mlp.act.register_forward_hook(lambda _m, _i, output: seen.append(output)),
    ]
    with torch.no_grad():
        source.model(next(images.batches(len(images))).pixels)
    for handle in handles:
        handle.remove()
    return [np.asarray(t.flatten(0, -2), np.float64) for t in seen]


@pytest.mark.parametrize("name", ["vit", "convnext"])
@pytest.mark.parametrize("kind", ["none", "firing", "activation"])
def test_sums_equal_those_over_everything(request, images, name, kind):
    source = request.getfixturevalue(name)
    statistics = activation_statistics(
        source.model, images, [1, 2], coactivation=kind, batch_size=7
    )
    assert sorted(statistics.layers) == [1, 2]
    layer = statistics.layers[2]
    inputs, acts = seen_at_once(source, images, 2)
    assert layer.tokens == len(acts)
    np.testing.assert_allclose(layer.l1, np.abs(acts).sum(0), rtol=1e-5)
    np.testing.assert_allclose(layer.l2, (acts**2).sum(0), rtol=1e-5)
    np.testing.assert_array_equal(layer.firing, (acts > 0).sum(0))
    np.testing.assert_allclose(layer.channel_l1, np.abs(inputs).sum(0), rtol=1e-5)
    np.testing.assert_allclose(layer.channel_l2, (inputs**2).sum(0), rtol=1e-5)
    if kind == "none":
        assert layer.coactivation is None
        return
    fires = (acts > 0).astype(float) if kind == "firing" else np.maximum(acts, 0)
    np.testing.assert_allclose(layer.coactivation.together, fires.T @ fires, rtol=1e-4)
    np.testing.assert_allclose(layer.coactivation.alone, fires.sum(0), rtol=1e-5)


def test_scores_are_means_over_tokens(vit, images):
    layer = activation_statistics(vit.model, images, [0]).layers[0]
    _, acts = seen_at_once(vit, images, 0)
    np.testing.assert_allclose(layer.score("l1"), np.abs(acts).mean(0), rtol=1e-5)
    np.testing.assert_allclose(layer.score("l2"), np.sqrt((acts**2).mean(0)), rtol=1e-5)
    np.testing.assert_allclose(layer.score("firing"), (acts > 0).mean(0), rtol=1e-5)


def test_the_cost_is_split(vit, images):
    cost = activation_statistics(vit.model, images).cost
    assert cost.images == len(images)
    assert cost.forward > 0
    assert cost.bookkeeping > 0
    assert 0 < cost.forward_share < 1
    assert cost.peak_memory > 0


def test_no_hook_is_left_behind(vit, images):
    activation_statistics(vit.model, images)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in vit.model.modules())


def test_a_file_holds_what_was_saved(vit, images, tmp_path):
    made = activation_statistics(vit.model, images, coactivation="firing", source="abc")
    save_statistics(tmp_path / "acts.safetensors", made)
    data = data_fingerprint(images)
    read = load_statistics(
        tmp_path / "acts.safetensors", source="abc", data=data, layers=[0, 2], coactivation="firing"
    )
    assert read.cost == made.cost
    assert read.images == made.images
    for depth, layer in made.layers.items():
        np.testing.assert_array_equal(read.layers[depth].together, layer.together)
        np.testing.assert_array_equal(read.layers[depth].score("l2"), layer.score("l2"))


@pytest.mark.parametrize(
    ("asks", "says"),
    [
        ({"source": "other"}, "are of another model"),
        ({"data": "other"}, "are of other images"),
        ({"layers": [7]}, "have no layer 7"),
        ({"coactivation": "firing"}, "hold co-activation of kind 'none', not 'firing'"),
    ],
)
def test_a_file_of_something_else_is_refused(vit, images, tmp_path, asks, says):
    path = tmp_path / "acts.safetensors"
    save_statistics(path, activation_statistics(vit.model, images, source="abc"))
    with pytest.raises(Refusal, match=says):
        load_statistics(path, **asks)


def test_a_torn_file_is_refused(vit, images, tmp_path):
    path = tmp_path / "acts.safetensors"
    save_statistics(path, activation_statistics(vit.model, images))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(Refusal, match="cannot be read"):
        load_statistics(path)


def test_the_fingerprint_knows_the_transform(images):
    other = images.transform.model_copy(update={"crop": 0.9})
    changed = type(images)(images.card, images.ids, images.labels, other, images.read)
    assert data_fingerprint(images) != data_fingerprint(changed)


def test_a_layer_out_of_range(vit, images):
    with pytest.raises(Refusal, match="layer 3 does not exist"):
        activation_statistics(vit.model, images, [3])


def test_a_sample_shows_every_class_equally_often():
    labels = np.repeat([0, 1, 2, 3], [50, 50, 3, 50])
    taken = balanced_sample(labels, 43, np.random.default_rng(0))
    counts = np.bincount(labels[taken])
    assert counts[2] == 3
    assert sorted(counts[[0, 1, 3]]) == [13, 13, 14]
    assert (np.diff(taken) > 0).all()
    np.testing.assert_array_equal(taken, balanced_sample(labels, 43, np.random.default_rng(0)))
    assert taken.tolist() != balanced_sample(labels, 43, np.random.default_rng(1)).tolist()


def test_a_sample_of_everything_and_of_unlabelled_images():
    labels = np.full(10, -1)
    assert balanced_sample(labels, None, np.random.default_rng(0)).tolist() == list(range(10))
    assert balanced_sample(labels, 99, np.random.default_rng(0)).tolist() == list(range(10))
    assert len(set(balanced_sample(labels, 4, np.random.default_rng(0)))) == 4
