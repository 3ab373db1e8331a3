"""Small dense models with random weights, and how digits are shown to them."""

import torch

from routelab.models import build
from routelab.records import ModelCard, Transform
from routelab.recycling.sources import DenseSource

DIGITS = Transform(size=32, channels=1, mean=(0.5,), std=(0.5,), interpolation="bilinear")
CLASSES = tuple("0123456789")


def vit_card(width=24, heads=3, depth=3):
    """A ViT for digits of 32 × 32 pixels."""
    arguments = {"img_size": 32, "patch_size": 8, "embed_dim": width, "num_heads": heads}
    return ModelCard(
        architecture="vit_tiny_patch16_224",
        arguments=arguments | {"depth": depth},
        classes=CLASSES,
        transform=DIGITS,
    )


def convnext_card():
    """A ConvNeXt of four stages for digits of 32 × 32 pixels."""
    arguments = {
        "depths": (1, 1, 2, 1),
        "dims": (8, 16, 24, 32),
        "patch_size": 2,
        "conv_mlp": False,
    }
    return ModelCard(
        architecture="convnext_tiny", arguments=arguments, classes=CLASSES, transform=DIGITS
    )


def dense_source(card, seed=0):
    """A source whose every weight is random: norms, biases and scales too."""
    model = build(card, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return DenseSource(model, card, f"{seed:064d}")
