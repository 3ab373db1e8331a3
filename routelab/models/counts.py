"""How big is a model and what does one image cost, part by part?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import nn

from routelab.models.build import mlp_blocks, moe_layers, router_specs
from routelab.models.layer import MoELayer
from routelab.records import ModelCard, RouterSpec

PARTS = ("attention", "dense_mlp", "experts", "shared", "router", "other")


class Counts(NamedTuple):
    """Parameters and FLOPs (2 for a multiply-add) of one image, by part.

    `active` counts the parameters that one token uses: all of soft routing, k experts of sparse.
    `routing` in `flops` is what routing costs beside the experts: logits, dispatch and combine.
    """

    parameters: dict[str, int]
    flops: dict[str, int]
    total: int
    active: int

    @property
    def total_flops(self) -> int:
        """FLOPs of one image's forward pass."""
        return sum(self.flops.values())


def count(model: nn.Module, card: ModelCard) -> Counts:
    """Count a model by part; FLOPs cover matrix products and convolutions, nothing element-wise.

    The model may be on the meta device: parameters are then counted, but FLOPs, which need a
    forward pass, stay empty.
    """
    parameters = dict.fromkeys(PARTS, 0)
    for name, parameter in model.named_parameters():
        parameters[_part(name, model)] += parameter.numel()
    total = sum(parameters.values())
    meta = next(model.parameters()).is_meta
    specs = {} if meta else router_specs(model, card)
    idle = sum(_idle(layer) for layer in moe_layers(model).values())
    flops = {} if meta else _flops(model, card, specs)
    return Counts(parameters, flops, total, total - idle)


def _part(name: str, model: nn.Module) -> str:
    """The part that a parameter belongs to."""
    for path in moe_layers(model):
        if name.startswith(f"{path}."):
            return name[len(path) + 1 :].split(".")[0]
    for path in mlp_blocks(model):
        if name.startswith(f"{path}.mlp."):
            return "dense_mlp"
        if name.startswith(f"{path}.attn."):
            return "attention"
    return "other"


def _idle(layer: MoELayer) -> int:
    """Routed parameters that one token does not use: all but those of its k (largest) experts."""
    k = getattr(layer.spec.router, "k", None)
    if k is None:
        return 0
    sizes = sorted(
        size
        for bank in layer.experts.in_order()
        for size in [sum(p.numel() for p in bank.parameters()) // bank.count] * bank.count
    )
    return sum(sizes[: len(sizes) - k])


def _flops(model: nn.Module, card: ModelCard, specs: Mapping[str, RouterSpec]) -> dict[str, int]:
    """FLOPs by part: torch's own count of the dense parts, formulas for experts and routing."""
    flops = dict.fromkeys((*PARTS, "routing"), 0)
    shapes: dict[str, int] = {}
    handles = []
    for name, module in model.named_modules():
        inside = any(name.startswith(f"{path}.") for path in specs)
        if not inside and isinstance(module, nn.Linear | nn.Conv2d):
            handles.append(module.register_forward_hook(_counter(flops, _part(f"{name}.", model))))
        if name in specs:
            handles.append(
                module.register_forward_hook(
                    lambda _m, inputs, _out, name=name: shapes.__setitem__(
                        name, inputs[0][0, ..., 0].numel()
                    )
                )
            )
    try:
        size = card.transform.size
        device = next(model.parameters()).device
        with torch.no_grad():
            model.eval()(torch.zeros(1, card.transform.channels, size, size, device=device))
    finally:
        for handle in handles:
            handle.remove()
    _attention_products(model, flops)
    for name, spec in specs.items():
        _moe_flops(spec, moe_layers(model)[name], shapes[name], flops)
    return flops


def _counter(flops: dict[str, int], part: str) -> Callable[[nn.Module, Any, torch.Tensor], None]:
    """A hook that adds a linear map's or convolution's products to a part."""

    def hook(module: nn.Module, inputs: Any, output: torch.Tensor) -> None:
        weight = module.get_parameter("weight")
        places = output.numel() // weight.shape[0]
        flops[part] += 2 * places * weight.numel()

    return hook


def _attention_products(model: Any, flops: dict[str, int]) -> None:
    """The two products QKᵀ and AV, 4 N² d a block, of models with attention."""
    blocks: list[Any] = [b for b in mlp_blocks(model).values() if hasattr(b, "attn")]
    if not blocks:
        return
    tokens = model.patch_embed.num_patches + getattr(model, "num_prefix_tokens", 0)
    for block in blocks:
        flops["attention"] += 4 * tokens * tokens * block.attn.proj.out_features


def _moe_flops(spec: RouterSpec, layer: MoELayer, tokens: int, flops: dict[str, int]) -> None:
    """Experts, shared experts and routing of one layer for one image."""
    d = spec.width
    if layer.shared is not None:
        bank = layer.shared.bank
        flops["shared"] += 4 * tokens * d * bank.count * bank.fc1_weight.shape[2]
    if spec.soft:
        work = sum((g.stop - g.start) * g.slots * g.hidden for g in spec.groups)
        flops["experts"] += 4 * d * work
        flops["routing"] += 3 * 2 * tokens * spec.slots * d
        return
    hidden = max(g.hidden for g in spec.groups)
    choices = (
        spec.experts * (spec.capacity or 0)
        if spec.kind == "expert_choice"
        else tokens * (spec.k or 1)
    )
    flops["experts"] += 4 * d * hidden * choices
    flops["routing"] += 2 * spec.tokens * spec.experts * d
