"""Do checkpoint, data and options go together? Everything is opened and checked before any work."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from routelab.capture.forward import Forward
from routelab.capture.machine import find_machine, versions
from routelab.capture.options import CaptureOptions
from routelab.capture.recording import Detail
from routelab.capture.selection import select_layers
from routelab.capture.taps import uncompiled
from routelab.data import Images, open_data
from routelab.models import load_checkpoint, moe_layers, router_specs
from routelab.records import CaptureCard, ModelCard, Refusal, RouterSpec


@dataclass(frozen=True)
class Session:
    """A model ready to run over images, and the layers to record."""

    forward: Forward
    model_card: ModelCard
    data: Images
    specs: tuple[RouterSpec, ...]
    capture: CaptureCard

    def labels(self, labels: Tensor) -> Tensor:
        """Labels as far as the model has an output for each: -1 where its classes are others."""
        outputs = int(getattr(self.forward.model, "num_classes", 0))
        return labels if outputs == len(self.data.classes) else torch.full_like(labels, -1)

    def detail(self, card: CaptureCard) -> Detail:
        """How much a card asks to record of this model."""
        model = self.forward.model
        prefix = int(getattr(model, "num_prefix_tokens", 0))
        class_token = prefix > 0 and getattr(model, "cls_token", None) is not None
        return Detail(card.level, card.features, prefix, class_token)


def open_session(options: CaptureOptions) -> Session:
    """Open the checkpoint and the data and check that they go together.

    Raises
    ------
    Refusal
        Missing or damaged checkpoint, a dense model, a layer that is not MoE, no images, classes
        that differ, a device that is not there, or options that contradict each other.
    """
    machine = find_machine(options.device, options.dtype)
    model, card = load_checkpoint(options.checkpoint)
    model = uncompiled(model).eval()
    layers = moe_layers(model)
    if not layers:
        raise Refusal(_dense(options.checkpoint, model))
    specs = select_layers(options.layers, tuple(router_specs(model, card).values()))
    data = open_data(
        options.data,
        card.transform,
        split=options.split,
        on_corrupt="skip" if options.skip_corrupt else "refuse",
        limit=options.limit,
    )
    check_classes(card, data)
    forward = Forward(model.to(machine.device), layers, machine, card.transform)
    capture = capture_card(options, len(data), str(machine.device))
    return Session(forward, card, data, specs, capture)


def capture_card(options: CaptureOptions, images: int, device: str) -> CaptureCard:
    """The card of a capture by these options over so many images; its shard is settled later.

    Raises
    ------
    Refusal
        If token features are asked for at a level that does not keep full routing.
    """
    wanted = images if options.full == "all" else min(int(options.full), images)
    full = wanted if options.level == "full" else 0
    level = "profiles" if options.level == "full" and not full else options.level
    if options.features == "tokens" and not full:
        raise Refusal(
            "--features tokens needs full routing, and this capture keeps none; "
            "give --level full and --full N, or --features pooled"
        )
    return CaptureCard(
        command=options.command(),
        level=level,
        full=full,
        features="none" if level == "totals" else options.features,
        batch_size=options.batch_size,
        shard=options.batch_size,
        device=device,
        dtype=options.dtype,
        versions=versions(),
    )


def check_classes(card: ModelCard, data: Images) -> None:
    """Refuse images whose class folders are not the classes that the model was trained on."""
    if not card.classes or not data.classes:
        return
    if len(card.classes) != len(data.classes):
        raise Refusal(
            f"the checkpoint knows {len(card.classes)} classes and {data.card.source} has "
            f"{len(data.classes)}; give the data that it was trained for, or a folder without "
            "class folders"
        )
    for number, (known, found) in enumerate(zip(card.classes, data.classes, strict=True)):
        if known != found:
            raise Refusal(
                f'class {number} is "{known}" in the checkpoint and "{found}" in '
                f"{data.card.source}; rename the folders, or give the data that it was trained for"
            )


def _dense(path: Path, model: nn.Module) -> str:
    """One sentence: no MoE layer here, what is nearest, and what to do."""
    names = [name for name, _ in model.named_modules() if name]
    near = [name for name in names if name.rsplit(".", 1)[-1] in ("mlp", "router", "gate", "moe")]
    near = near or difflib.get_close_matches("mlp", names, n=3, cutoff=0.0)
    return (
        f"{path} is a dense {type(model).__name__} with no MoE layer to capture; the nearest "
        f"modules are {', '.join(near[:3])}: see `routelab inspect {path}`, or build a MoE model "
        "from it"
    )
