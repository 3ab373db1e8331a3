"""A small real timm ViT with a MoE layer of each router kind, and images to run it on."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image

from routelab.models import build, save_checkpoint
from routelab.records import (
    ExpertChoiceRouting,
    ExpertGroup,
    ImageRouting,
    ModelCard,
    MoESpec,
    SoftRouting,
    SpheroRouting,
    TopKRouting,
    Transform,
)

CLASSES = ("ant", "bee", "cat")

ROUTERS = {
    "soft": SoftRouting(),
    "sphero": SpheroRouting(),
    "topk": TopKRouting(k=2, capacity_factor=0.8),
    "expert_choice": ExpertChoiceRouting(capacity_factor=1.0),
    "image": ImageRouting(k=2),
}


def model_card(kind="soft", *, layers=(1, 2), classes=CLASSES, moe=True):
    slots = 2 if kind in ("soft", "sphero") else 1
    spec = MoESpec(
        layers=layers,
        router=ROUTERS[kind],
        groups=(
            ExpertGroup(name="core", experts=3, slots=slots),
            ExpertGroup(name="universal", experts=2, hidden_ratio=1.0),
        ),
        shared=ExpertGroup(experts=1, hidden_ratio=1.0),
    )
    return ModelCard(
        architecture="vit_tiny_patch16_224",
        arguments={"img_size": 32, "patch_size": 8, "depth": 3, "embed_dim": 48, "num_heads": 3},
        spec=spec if moe else None,
        classes=classes,
        transform=Transform(size=32, interpolation="nearest"),
    )


def make_checkpoint(folder: Path, kind="soft", *, change=None, **card) -> Path:
    """A checkpoint with random weights; `change` may spoil the model before it is saved."""
    described = model_card(kind, **card)
    model = build(described, seed=7)
    sharpen(model)
    if change is not None:
        change(model)
    path = folder / f"{kind}.safetensors"
    save_checkpoint(path, model, described)
    return path


def sharpen(model) -> None:
    """Larger router weights, so that a random router has preferences."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("router.gate.weight"):
                parameter.mul_(20)
            elif name.endswith("router.scale"):
                parameter.fill_(6.0)


def make_folder(root: Path, images=50, *, classes=CLASSES, seed=0) -> Path:
    """Noise images in class folders, or loose where there are no classes."""
    rng = np.random.default_rng(seed)
    for number in range(images):
        folder = root / classes[number % len(classes)] if classes else root
        folder.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number:03d}.png")
    return root
