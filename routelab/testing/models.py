"""How is a model with a known answer made, whose routing `routelab capture` can record?

A three-block ViT that computes nothing but its routers: attention and experts write zeros, so a
token is what its patch shows. A patch has a colour, which the class decides, and a texture, which
is noise; a router reads the one or the other, and one channel that is the same everywhere.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from routelab.records import (
    ExpertGroup,
    ImageRouting,
    ModelCard,
    MoESpec,
    SoftRouting,
    TopKRouting,
    Transform,
)

if TYPE_CHECKING:
    from torch import Tensor, nn

ModelRouter = Literal["soft", "topk", "image"]
PLANTED_MODELS = ("healthy", "dead_expert", "collapsed", "class_in_one_layer")
"""Kinds of `PLANTED` that a model can show by itself."""

COLOURS = np.array([[-1, -1, 1], [-1, 1, -1], [1, -1, -1], [1, 1, 1]])
"""Colour of each class, red, green and blue, as the model sees them: corners of a tetrahedron."""
CLASSES = ("blue", "green", "red", "white")
SIZE, PATCH, WIDTH, DEPTH = 32, 8, 32, 3
TEXTURE, ALWAYS = 3, WIDTH - 1
"""First of four channels that read texture, and the channel that is the same in all tokens."""
LEVEL = 6.0
"""Its value: about the norm of a token, so that an angle to it can bar an expert."""
GAIN, BAR = 3.0, 40.0
"""How strongly a router reads a channel that decides, and how strongly it bars or wants all."""
ROUTERS: dict[ModelRouter, SoftRouting | TopKRouting | ImageRouting] = {
    "soft": SoftRouting(),
    "topk": TopKRouting(k=1),
    "image": ImageRouting(k=1, source="mean"),
}


def planted_images(folder: str | Path, *, images: int = 80, seed: int = 0) -> Path:
    """Write images of four classes, coloured noise, into class folders; returns the folder."""
    rng, folder = np.random.default_rng(seed), Path(folder)
    for number in range(images):
        label = number % len(CLASSES)
        noise = rng.normal(0, 0.35, (SIZE, SIZE, 1))
        pixels = np.clip(0.5 + 0.2 * COLOURS[label] + 0.5 * noise, 0, 1)
        place = folder / CLASSES[label]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray((255 * pixels).round().astype(np.uint8)).save(place / f"{number:04d}.png")
    return folder


def planted_checkpoint(path: str | Path, kind: str, *, router: ModelRouter = "topk") -> ModelCard:
    """Write a checkpoint whose routing is known, in blocks 0 to 2, with four experts each.

    Parameters
    ----------
    path
        NAME.safetensors; its card is written beside it.
    kind
        One of `PLANTED_MODELS`; `routelab.testing.PLANTED` says what each looks like.
    router
        "soft" (two slots an expert), "topk" (k = 1) or "image" (k = 1, of the mean token).

    Raises
    ------
    ValueError
        The kind is unknown.
    """
    from routelab.models import save_checkpoint

    model, card = planted_model(kind, router=router)
    return save_checkpoint(Path(path), model, card)


def planted_model(kind: str, *, router: ModelRouter = "topk") -> tuple[nn.Module, ModelCard]:
    """The model of `planted_checkpoint`, and its card."""
    import torch

    from routelab.models import build, moe_layers

    if kind not in PLANTED_MODELS:
        raise ValueError(f"kind {kind!r} is not one of {', '.join(PLANTED_MODELS)}")
    card = _card(router)
    model = build(card)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.fill_(1.0 if "norm" in name and name.endswith("weight") else 0.0)
        _see_patches(model)
        for depth, layer in enumerate(moe_layers(model).values()):
            block = model.get_submodule(f"blocks.{depth}")
            block.get_parameter("norm2.weight")[ALWAYS] = 0
            block.get_parameter("norm2.bias")[ALWAYS] = LEVEL
            _set_router(layer.router, torch.from_numpy(_wishes(kind, depth)).float())
    return model.eval(), card


def _card(router: ModelRouter) -> ModelCard:
    slots = 2 if router == "soft" else 1
    return ModelCard(
        architecture="vit_tiny_patch16_224",
        arguments={
            "img_size": SIZE,
            "patch_size": PATCH,
            "embed_dim": WIDTH,
            "depth": DEPTH,
            "num_heads": 2,
            "global_pool": "avg",
        },
        spec=MoESpec(
            layers=tuple(range(DEPTH)),
            router=ROUTERS[router],
            groups=(ExpertGroup(experts=len(CLASSES), slots=slots, hidden_ratio=0.5),),
        ),
        classes=CLASSES,
        transform=Transform(size=SIZE, interpolation="nearest", mean=(0.5,) * 3, std=(0.5,) * 3),
        source="planted by routelab.testing",
    )


def _see_patches(model: nn.Module) -> None:
    """Colour into channels 0 to 2, texture into the next four, and colours into classes."""
    import torch

    kernel = model.get_parameter("patch_embed.proj.weight")  # (width, 3, PATCH, PATCH)
    for channel in range(3):
        kernel[channel, channel] = 2 / PATCH**2
    half = torch.ones(PATCH)
    half[PATCH // 2 :] = -1
    stripes = torch.ones(PATCH)
    stripes[1::2] = -1
    waves = (half[:, None], half[None, :], half[:, None] * half, stripes[None, :])
    for number, wave in enumerate(waves):
        kernel[TEXTURE + number] = wave.expand(PATCH, PATCH) / PATCH
    head = model.get_parameter("head.weight")
    head[:, :3] = torch.from_numpy(COLOURS).to(head.dtype)


def _wishes(kind: str, depth: int) -> NDArray[np.float64]:
    """What each expert's gate reads, shape (4, width)."""
    by_class = depth == 1 if kind == "class_in_one_layer" else depth == DEPTH - 1
    wishes = np.zeros((len(CLASSES), WIDTH))
    if by_class:
        wishes[:, :3] = GAIN * COLOURS
    else:
        wishes[:, TEXTURE : TEXTURE + 4] = GAIN * np.eye(4)
    if kind == "dead_expert":
        wishes[-1, ALWAYS] = -BAR
    if kind == "collapsed":
        wishes[:, ALWAYS] = -BAR
        wishes[0, ALWAYS] = BAR
    return wishes


def _set_router(router: nn.Module, wishes: Tensor) -> None:
    """Rows of a gate, or the directions of the slots (in which only the angle counts)."""
    parameters = dict(router.named_parameters())
    if "gate.weight" in parameters:
        parameters["gate.weight"].copy_(wishes)
        return
    slots = wishes.repeat_interleave(2, dim=0)
    parameters["mu"].copy_(slots.T)
    parameters["scale"].fill_(BAR)
