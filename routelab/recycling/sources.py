"""Which dense model is in this file? A RouteLab checkpoint, or a state dict with timm's names."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

import timm
import torch
from torch import Tensor, nn

from routelab.models import build, card_path, file_sha256, load_checkpoint, read_weights
from routelab.records import ModelCard, Refusal, Transform

HEADS = ("head.weight", "head.fc.weight")
"""Where timm's ViT and ConvNeXt keep the weights of their classes."""


class DenseSource(NamedTuple):
    """A dense model with its weights, its card, and the SHA-256 of the file that it came from."""

    model: nn.Module
    card: ModelCard
    sha256: str

    @property
    def name(self) -> str:
        """Architecture and the first digits of the hash."""
        return f"{self.card.architecture} {self.sha256[:12]}".strip()


def open_source(path: Path, *, architecture: str = "", size: int | None = None) -> DenseSource:
    """The dense model of a checkpoint file, in float32 on the CPU.

    Parameters
    ----------
    path
        A RouteLab checkpoint, or a `.safetensors`, `.pt` or `.pth` state dict with timm's names
        (also with int8 weights `NAME.q` and their `NAME.scale`).
    architecture
        timm's name of the model; needed where no card says it.
    size
        Side of the input; position embeddings are resampled to it. None: the checkpoint's own.

    Raises
    ------
    Refusal
        Missing, damaged or ambiguous file, a MoE checkpoint, weights of another architecture.
    """
    path = Path(path)
    if not architecture and path.exists() and not card_path(path).exists():
        raise Refusal(
            f"checkpoint {path} has no card {card_path(path).name} to say its architecture; "
            "name the timm model that it is of with --model (or --source-model)"
        )
    if architecture:
        return _foreign(path, architecture, size)
    model, card = load_checkpoint(path)
    if card.spec is not None:
        raise Refusal(f"checkpoint {path} is a MoE model already; recycle a dense one")
    if size not in (None, card.transform.size):
        raise Refusal(f"checkpoint {path} is for {card.transform.size} pixels; leave --size out")
    return DenseSource(model, card, card.sha256 or file_sha256(path))


def _foreign(path: Path, architecture: str, size: int | None) -> DenseSource:
    """A state dict with timm's names, loaded into the model that it is said to be of."""
    weights = {name: weight.float() for name, weight in dequantized(read_weights(path)).items()}
    card = _card(path, architecture, size, _classes(weights))
    model = build(card)
    fitted = _fitted(weights, model, path, architecture)
    wrong = _first_wrong(fitted, model)
    if wrong:
        raise Refusal(
            f"checkpoint {path} is not of architecture {architecture}: {wrong}; "
            "name the right one, or mend the file"
        )
    model.load_state_dict(fitted)
    return DenseSource(model, card, file_sha256(path))


def dequantized(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights with int8 matrices `NAME.q (out, in)` times `NAME.scale (out,)` under `NAME`."""
    plain = {n: w for n, w in weights.items() if not n.endswith((".q", ".scale"))}
    for name in (n.removesuffix(".q") for n in weights if n.endswith(".q")):
        if f"{name}.scale" not in weights:
            raise Refusal(f"int8 weight {name} has no {name}.scale; copy the checkpoint again")
        plain[name] = weights[f"{name}.q"].float() * weights[f"{name}.scale"].float()[:, None]
    return plain


def _card(path: Path, architecture: str, size: int | None, classes: int) -> ModelCard:
    """The card of a timm model, with the preprocessing that timm states for it."""
    names = tuple(str(number) for number in range(classes))
    bare = ModelCard(architecture=architecture, transform=Transform(size=size or 224))
    if not timm.is_model(architecture):
        build(bare)  # refuses, with the nearest names
    if timm.models.model_entrypoint(architecture).__module__.endswith("convnext"):
        arguments: dict[str, Any] = {"conv_mlp": False}
    else:
        arguments = {} if size is None else {"img_size": size}
    stated: Any = build(bare.model_copy(update={"arguments": arguments})).pretrained_cfg
    interpolation = stated.get("interpolation", "bicubic")
    transform = Transform(
        size=size or stated["input_size"][-1],
        crop=stated.get("crop_pct") or 1.0,
        interpolation=interpolation if interpolation in ("bicubic", "bilinear") else "bicubic",
        mean=stated["mean"],
        std=stated["std"],
    )
    return ModelCard(
        architecture=architecture,
        arguments=arguments,
        classes=names,
        transform=transform,
        source=f"weights of {path.name}",
    )


def _classes(weights: dict[str, Tensor]) -> int:
    """Rows of the head; 0 for a checkpoint of features alone."""
    return next((len(weights[name]) for name in HEADS if name in weights), 0)


def _fitted(
    weights: dict[str, Tensor], model: nn.Module, path: Path, architecture: str
) -> dict[str, Tensor]:
    """Weights by timm's own conversion (position embeddings resampled), 1 × 1 kernels as matrices.

    A head without a bias gets one of zeros.
    """
    convert = getattr(sys.modules[type(model).__module__], "checkpoint_filter_fn", None)
    try:
        fitted = dict(convert(dict(weights), model)) if convert else dict(weights)
    except (RuntimeError, ValueError, KeyError, AssertionError) as error:
        raise Refusal(
            f"checkpoint {path} is not of architecture {architecture} (its weights have no place "
            f"there: {error}); name the timm model that it is of"
        ) from error
    wanted = model.state_dict()
    for name, weight in wanted.items():
        if name in fitted and fitted[name].ndim != weight.ndim:
            fitted[name] = fitted[name].reshape(fitted[name].shape[: weight.ndim])
        elif name not in fitted and name in ("head.bias", "head.fc.bias"):
            fitted[name] = torch.zeros_like(weight)
    return fitted


def _first_wrong(weights: dict[str, Tensor], model: nn.Module) -> str:
    """The first weight that is missing, unknown or of another shape, in words; "" if none is."""
    wanted = model.state_dict()
    for name, weight in wanted.items():
        if name not in weights:
            return f"{name} is missing"
        if weights[name].shape != weight.shape:
            return f"{name} has shape {tuple(weights[name].shape)}, not {tuple(weight.shape)}"
    return next((f"{name} is unknown" for name in weights if name not in wanted), "")
