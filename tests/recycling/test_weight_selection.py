"""Index for index the published rule, and a small timm model that loads."""

import numpy as np
import pytest
import timm
import torch

from routelab.records import ModelCard, Refusal, Transform
from routelab.recycling.sources import DenseSource
from routelab.recycling.weight_selection import ElementRule, select_weights, selected_weights
from tests.recycling.small import vit_card


def published(weight, shape):
    """The released `uniform_element_selection`, in NumPy."""
    for dim, wanted in enumerate(shape):
        available = weight.shape[dim]
        assert available >= wanted
        if available % wanted == 0:
            index = np.arange(wanted) * (available // wanted)
        else:
            index = np.round(np.linspace(0, available - 1, wanted)).astype(int)
        weight = np.take(weight, index, axis=dim)
    return weight


@pytest.mark.parametrize(
    ("available", "wanted", "expected"),
    [
        (384, 192, list(range(0, 384, 2))),
        (1536, 768, list(range(0, 1536, 2))),
        (768, 384, list(range(0, 768, 2))),
        (10, 4, [0, 3, 6, 9]),
        (7, 5, [0, 2, 3, 4, 6]),
    ],
)
def test_indices_of_the_published_rule(available, wanted, expected):
    assert ElementRule()(available, wanted).tolist() == expected


@pytest.mark.slow
def test_vit_small_to_vit_tiny_loads_into_timm():
    teacher = timm.create_model("vit_small_patch16_224").state_dict()
    student = timm.create_model("vit_tiny_patch16_224")
    weights = selected_weights(teacher, student.state_dict())
    own = {name: tensor.clone() for name, tensor in student.state_dict().items()}
    student.load_state_dict(weights)
    for name, tensor in student.state_dict().items():
        if "head" in name:
            np.testing.assert_array_equal(tensor, own[name])
        else:
            want = published(np.asarray(teacher[name]), tensor.shape)
            np.testing.assert_array_equal(tensor, want, err_msg=name)


def test_a_shallower_student_takes_the_first_layers(wide_vit):
    card = vit_card(width=20, heads=4, depth=2)
    model, made = select_weights(wide_vit, card)
    held = wide_vit.model.state_dict()
    for name, tensor in model.state_dict().items():
        np.testing.assert_array_equal(tensor, published(np.asarray(held[name]), tensor.shape))
    assert "uniform" in made.source
    assert made.lineage is None


def test_another_set_of_classes_gets_a_fresh_head(wide_vit):
    card = vit_card(width=24, heads=3).model_copy(update={"classes": ("yes", "no")})
    model, _ = select_weights(wide_vit, card, seed=5)
    again, _ = select_weights(wide_vit, card, seed=5)
    assert model.head.weight.shape == (2, 24)
    torch.testing.assert_close(model.head.weight, again.head.weight)


def test_consecutive_takes_the_first(wide_vit):
    model, _ = select_weights(wide_vit, vit_card(24, 3), elements="consecutive")
    want = wide_vit.model.blocks[1].mlp.fc1.weight[:96, :24]
    torch.testing.assert_close(model.blocks[1].mlp.fc1.weight, want)


def test_random_is_consistent_across_tensors():
    rule = ElementRule("random", seed=1)
    first = rule(384, 192)
    np.testing.assert_array_equal(first, rule(384, 192))
    assert (np.diff(first) > 0).all()
    assert first.tolist() != ElementRule("random", seed=2)(384, 192).tolist()
    assert rule(192, 192).tolist() == list(range(192))


def test_a_student_that_is_too_large(vit):
    with pytest.raises(Refusal, match="smaller in every dimension"):
        select_weights(vit, vit_card(48, 6))
    with pytest.raises(Refusal, match="no more layers"):
        select_weights(vit, vit_card(24, 3, depth=4))


def test_a_student_of_another_family(convnext):
    source = DenseSource(convnext.model, convnext.card, "")
    card = ModelCard(architecture="vit_tiny_patch16_224", transform=Transform(size=224))
    with pytest.raises(Refusal, match="same family"):
        select_weights(source, card)
