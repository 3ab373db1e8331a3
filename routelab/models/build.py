"""How does a timm model become a MoE model? Chosen blocks get a `MoELayer` as their `mlp`."""

from __future__ import annotations

import difflib
from typing import Any

import timm
import torch
from torch import nn

from routelab.models.layer import MoELayer
from routelab.models.lineage import LINEAGE, LineageTensors
from routelab.models.routers import ImageRouter
from routelab.records import GroupRange, ModelCard, MoESpec, Refusal, RouterSpec


def build(card: ModelCard, *, seed: int | None = None) -> nn.Module:
    """The model that a card describes, freshly initialised, in evaluation mode.

    Parameters
    ----------
    card
        Architecture, arguments, classes and MoESpec; without a spec the model stays dense.
    seed
        Of the initialisation; None takes torch's generator as it stands.

    Raises
    ------
    Refusal
        Unknown architecture or argument, a layer out of range, or blocks without an MLP.
    """
    if seed is not None:
        torch.manual_seed(seed)
    model = _timm_model(card)
    if card.spec is not None:
        insert_moe(model, card.spec)
    if card.lineage is not None:
        model.add_module(LINEAGE, LineageTensors(card.lineage.tensors))
    return model.eval()


def insert_moe(model: nn.Module, spec: MoESpec) -> dict[str, MoELayer]:
    """Replace the MLPs of the spec's blocks, in place; the new layers by dotted path."""
    blocks = mlp_blocks(model)
    missing = [layer for layer in spec.layers if layer >= len(blocks)]
    if missing:
        raise Refusal(
            f"layer {missing[0]} does not exist: this model has {len(blocks)} blocks with an MLP, "
            f"numbered 0 to {len(blocks) - 1}"
        )
    prefix = int(getattr(model, "num_prefix_tokens", 0))
    names = list(blocks)
    layers = {}
    for depth in sorted(spec.layers):
        block: Any = blocks[names[depth]]
        block.mlp = MoELayer(block.mlp.fc1.in_features, spec, prefix=prefix)
        layers[f"{names[depth]}.mlp"] = block.mlp
    return layers


def mlp_blocks(model: nn.Module) -> dict[str, nn.Module]:
    """Blocks that hold an MLP or a MoE layer under `mlp`, by dotted path, in depth order.

    Raises
    ------
    Refusal
        If there is none: RouteLab can only replace an MLP that a block keeps under that name.
    """
    blocks = {
        name: module
        for name, module in model.named_modules()
        if isinstance(getattr(module, "mlp", None), MoELayer)
        or isinstance(getattr(getattr(module, "mlp", None), "fc1", None), nn.Linear)
    }
    if not blocks:
        raise Refusal(
            f"{type(model).__name__} has no block with a linear MLP named `mlp`; "
            "take a ViT, DeiT, DINOv2 or ConvNeXt of timm (with the argument conv_mlp=False)"
        )
    return blocks


def moe_layers(model: nn.Module) -> dict[str, MoELayer]:
    """The model's MoE layers by dotted path, in depth order; empty for a dense model."""
    return {n: module for n, module in model.named_modules() if isinstance(module, MoELayer)}


def router_specs(model: nn.Module, card: ModelCard) -> dict[str, RouterSpec]:
    """What each MoE layer routes, by dotted path; token counts come from one probe forward pass."""
    layers = moe_layers(model)
    if not layers:
        return {}
    shapes = _input_shapes(model, layers, card)
    names = list(mlp_blocks(model))
    return {
        name: _router_spec(name, names.index(name.rsplit(".", 1)[0]), layer, shapes[name], model)
        for name, layer in layers.items()
    }


def _timm_model(card: ModelCard) -> nn.Module:
    """The dense timm model; its errors in one sentence."""
    if not timm.is_model(card.architecture):
        near = difflib.get_close_matches(card.architecture, timm.list_models(), n=3)
        hint = f"; the nearest are {', '.join(near)}" if near else ""
        raise Refusal(f"timm has no architecture named {card.architecture!r}{hint}")
    arguments = {"num_classes": len(card.classes), "in_chans": card.transform.channels}
    try:
        return timm.create_model(card.architecture, pretrained=False, **arguments | card.arguments)
    except (TypeError, ValueError, AssertionError) as error:
        raise Refusal(
            f"{card.architecture} cannot be built with the arguments {card.arguments}: {error}"
        ) from error


def _input_shapes(
    model: nn.Module, layers: dict[str, MoELayer], card: ModelCard
) -> dict[str, torch.Size]:
    """Shape of each MoE layer's input for one blank image."""
    shapes: dict[str, torch.Size] = {}
    handles = [
        layer.register_forward_pre_hook(
            lambda _module, inputs, name=name: shapes.__setitem__(name, inputs[0].shape)
        )
        for name, layer in layers.items()
    ]
    training = model.training
    try:
        weight = next(model.parameters())
        size = card.transform.size
        blank = torch.zeros(
            1, card.transform.channels, size, size, device=weight.device, dtype=weight.dtype
        )
        with torch.no_grad():
            model.eval()(blank)
    finally:
        model.train(training)
        for handle in handles:
            handle.remove()
    return shapes


def _router_spec(
    name: str, depth: int, layer: MoELayer, shape: torch.Size, model: nn.Module
) -> RouterSpec:
    """One layer's spec, from its parameters and the shape `(1, N, d)` or `(1, H, W, d)` it saw."""
    router, config = layer.router, layer.spec.router
    tokens = int(torch.Size(shape[1:-1]).numel())
    prefix = layer.prefix if len(shape) == 3 else 0
    image_level = isinstance(router, ImageRouter)
    k = layer.spec.experts if config.kind == "expert_choice" else getattr(config, "k", None)
    images = getattr(config, "images_per_group", 1)
    return RouterSpec(
        layer=name,
        depth=depth,
        kind=config.kind,
        tokens=1 if image_level else tokens,
        prefix=0 if image_level else prefix,
        grid=_grid(shape, prefix, model),
        width=layer.width,
        groups=_ranges(layer),
        shared=layer.shared is not None,
        k=k,
        capacity=router.capacity(tokens * images),
        recipe=router.recipe(),
    )


def _grid(shape: torch.Size, prefix: int, model: nn.Module) -> tuple[int, int] | None:
    """Rows and columns of the patch tokens; None where they do not fill a known grid."""
    if len(shape) == 4:
        return int(shape[1]), int(shape[2])
    grid = getattr(getattr(model, "patch_embed", None), "grid_size", None)
    if grid is not None and grid[0] * grid[1] == shape[1] - prefix:
        return int(grid[0]), int(grid[1])
    return None


def _ranges(layer: MoELayer) -> tuple[GroupRange, ...]:
    """The layer's groups as ranges of the expert axis."""
    ranges, start = [], 0
    for group in layer.spec.groups:
        stop = start + group.experts
        ranges.append(
            GroupRange(
                name=group.name,
                start=start,
                stop=stop,
                hidden=group.hidden(layer.width),
                slots=group.slots,
            )
        )
        start = stop
    return tuple(ranges)
