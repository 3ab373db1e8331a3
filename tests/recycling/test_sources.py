"""Dense models come from cards, from timm's names, from int8 files and from 1 × 1 convolutions."""

import pytest
import timm
import torch
from safetensors.torch import save_file

from routelab.records import Refusal
from routelab.recycling.sources import dequantized, open_source


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A ViT-Ti/16 of timm with 3 classes, and the file of its state dict."""
    torch.manual_seed(0)
    model = timm.create_model("vit_tiny_patch16_224", num_classes=3).eval()
    path = tmp_path_factory.mktemp("tiny") / "tiny.safetensors"
    save_file(model.state_dict(), path)
    return model, path


def test_a_routelab_checkpoint(saved_vit, vit):
    source = open_source(saved_vit)
    assert source.card.architecture == vit.card.architecture
    assert source.sha256 == source.card.sha256
    with pytest.raises(Refusal, match="leave --size out"):
        open_source(saved_vit, size=64)


def test_positions_are_resampled_to_the_size(tiny):
    model, path = tiny
    source = open_source(path, architecture="vit_tiny_patch16_224", size=64)
    assert source.card.transform.size == 64
    assert source.model.pos_embed.shape == (1, 17, 192)
    torch.testing.assert_close(
        source.model.blocks[3].attn.qkv.weight, model.blocks[3].attn.qkv.weight
    )
    same = open_source(path, architecture="vit_tiny_patch16_224")
    pixels = torch.randn(1, 3, 224, 224)
    with torch.inference_mode():
        torch.testing.assert_close(same.model(pixels), model(pixels))


def test_half_precision_and_a_pth_file(tiny, tmp_path):
    model, _ = tiny
    halves = {name: tensor.half() for name, tensor in model.state_dict().items()}
    torch.save({"state_dict": halves}, tmp_path / "half.pth")
    source = open_source(tmp_path / "half.pth", architecture="vit_tiny_patch16_224", size=32)
    assert source.model.head.weight.dtype == torch.float32


def test_int8_weights_times_their_scales():
    stored = {
        "fc.weight.q": torch.tensor([[1, -2], [3, 4]], dtype=torch.int8),
        "fc.weight.scale": torch.tensor([0.5, 2.0]),
        "fc.bias": torch.tensor([1.0, 2.0]),
    }
    plain = dequantized(stored)
    assert plain["fc.weight"].tolist() == [[0.5, -1.0], [6.0, 8.0]]
    assert set(plain) == {"fc.weight", "fc.bias"}
    with pytest.raises(Refusal, match=r"has no fc\.weight\.scale"):
        dequantized({"fc.weight.q": stored["fc.weight.q"]})


def test_convolutions_of_one_pixel_become_linear_layers(tmp_path):
    torch.manual_seed(0)
    model = timm.create_model("convnext_atto", num_classes=2, conv_mlp=True).eval()
    save_file(model.state_dict(), tmp_path / "atto.safetensors")
    source = open_source(tmp_path / "atto.safetensors", architecture="convnext_atto")
    assert isinstance(source.model.stages[0].blocks[0].mlp.fc1, torch.nn.Linear)
    pixels = torch.randn(1, 3, 64, 64)
    with torch.inference_mode():
        torch.testing.assert_close(source.model(pixels), model(pixels), atol=1e-4, rtol=1e-4)


def test_a_head_without_a_bias_gets_one_of_zeros(tiny, tmp_path):
    weights = {n: t for n, t in tiny[0].state_dict().items() if n != "head.bias"}
    save_file(weights, tmp_path / "biasless.safetensors")
    path = tmp_path / "biasless.safetensors"
    source = open_source(path, architecture="vit_tiny_patch16_224", size=32)
    assert (source.model.head.bias == 0).all()


@pytest.mark.parametrize("architecture", ["vit_small_patch16_224", "convnext_atto", "resnet18"])
def test_weights_of_another_architecture(tiny, architecture):
    with pytest.raises(Refusal, match=f"is not of architecture {architecture}"):
        open_source(tiny[1], architecture=architecture)
