"""What is in a checkpoint? `NAME.safetensors` and its card `NAME.json`; no code in either."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import warnings
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from routelab.models.build import build
from routelab.records import ModelCard, Refusal


def save_checkpoint(path: Path, model: nn.Module, card: ModelCard) -> ModelCard:
    """Write weights and card atomically; returns the card with the weights' SHA-256.

    Raises
    ------
    Refusal
        If the disk is full or the folder cannot be written; what stood there before stays.
    """
    path = Path(path).with_suffix(".safetensors")
    temporary = path.with_name(f".{path.name}.partial")
    weights = {name: t.detach().cpu().contiguous() for name, t in model.state_dict().items()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file(weights, temporary, metadata={"format": "pt"})
        card = card.model_copy(update={"sha256": file_sha256(temporary)})
        _replace(temporary, path)
        text = temporary.with_suffix(".json-partial")
        text.write_text(card.model_dump_json(indent=2) + "\n")
        _replace(text, card_path(path))
    except (OSError, SafetensorError) as error:
        temporary.unlink(missing_ok=True)
        raise Refusal(
            f"checkpoint {path} could not be written: {error}; free space and try again"
        ) from error
    return card


def load_checkpoint(path: Path) -> tuple[nn.Module, ModelCard]:
    """Model (on the CPU, in evaluation mode) and card of a checkpoint that RouteLab wrote.

    Raises
    ------
    Refusal
        Missing, truncated or foreign file, card or weights that do not match.
    """
    path = Path(path)
    card = read_card(path)
    weights = read_weights(path)
    if card.sha256 and path.suffix == ".safetensors" and file_sha256(path) != card.sha256:
        raise Refusal(
            f"checkpoint {path} is not the file that its card {card_path(path).name} describes "
            "(SHA-256 differs); restore the pair"
        )
    model = build(card)
    _load_into(model, weights, path)
    return model, card


def read_card(path: Path) -> ModelCard:
    """The card beside a checkpoint, without touching its weights."""
    path = Path(path)
    if not path.exists():
        raise Refusal(f"checkpoint {path} does not exist; check the path")
    if path.is_dir():
        raise Refusal(f"{path} is a folder; give the .safetensors file of a checkpoint")
    beside = card_path(path)
    if not beside.exists():
        raise Refusal(
            f"checkpoint {path} has no card {beside.name} beside it to say its architecture; "
            "save it with routelab.models.save_checkpoint"
        )
    try:
        return ModelCard.model_validate(json.loads(beside.read_text()))
    except (ValueError, ValidationError) as error:
        first = str(error).splitlines()[0]
        raise Refusal(f"card {beside} is not a model card: {first}; write it anew") from error


def read_weights(path: Path) -> dict[str, Tensor]:
    """State dict of a `.safetensors`, `.pt` or `.pth` file; never runs code from it."""
    path = Path(path)
    if not path.exists():
        raise Refusal(f"checkpoint {path} does not exist; check the path")
    if path.suffix == ".safetensors":
        try:
            return load_file(path)
        except (SafetensorError, OSError, ValueError) as error:
            raise Refusal(
                f"checkpoint {path} is truncated or not a safetensors file ({error}); copy it again"
            ) from error
    if path.suffix in (".pt", ".pth"):
        return _read_pickle(path)
    raise Refusal(f"checkpoint {path} is neither .safetensors nor .pt or .pth; convert it first")


def _read_pickle(path: Path) -> dict[str, Tensor]:
    """Tensors of a torch file, with the unpickler that refuses everything else."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of other pickle protocols, which then are refused
            loaded: Any = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise Refusal(
            f"checkpoint {path} holds more than tensors and would run code when loaded; it was not "
            "loaded: save its state dict as safetensors where you trust it"
        ) from error
    except (RuntimeError, EOFError, OSError, ValueError) as error:
        raise Refusal(f"checkpoint {path} is damaged ({error}); copy it again") from error
    for key in ("state_dict", "model"):
        if isinstance(loaded, dict) and isinstance(loaded.get(key), dict):
            loaded = loaded[key]
    if not isinstance(loaded, dict) or not all(isinstance(v, Tensor) for v in loaded.values()):
        raise Refusal(f"checkpoint {path} is not a state dict of tensors; save model.state_dict()")
    return loaded


def _load_into(model: nn.Module, weights: dict[str, Tensor], path: Path) -> None:
    """Load strictly, and name the first key that does not fit."""
    wanted = model.state_dict()
    wrong = [f"{name} is missing" for name in wanted if name not in weights]
    wrong += [f"{name} is unknown" for name in weights if name not in wanted]
    wrong += [
        f"{name} has shape {tuple(weights[name].shape)}, not {tuple(t.shape)}"
        for name, t in wanted.items()
        if name in weights and weights[name].shape != t.shape
    ]
    if wrong:
        more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise Refusal(
            f"checkpoint {path} does not fit its card: {wrong[0]}{more}; restore the pair"
        )
    model.load_state_dict(weights)


def card_path(path: Path) -> Path:
    """Where the card of a checkpoint lies."""
    return Path(path).with_suffix(".json")


def file_sha256(path: Path) -> str:
    """Hex digest of a file, read in pieces."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _replace(temporary: Path, path: Path) -> None:
    """Flush a finished file to disk and put it in place in one step."""
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    temporary.replace(path)
