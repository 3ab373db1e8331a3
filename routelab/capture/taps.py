"""What did every MoE layer do in this forward pass, seen from outside and leaving no trace?

Two plain forward hooks a layer: one on its router, whose output is the `Routing` value, one on the
layer, whose input and output are the features. Nothing is kept: a layer's tensors are handed to the
observer while the forward pass stands there, and let go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from routelab.models import MoELayer, Routing
from routelab.records import Refusal, RouterSpec


@dataclass(frozen=True)
class Sight:
    """One layer in one forward pass: its routing, and its input and output tokens `(B, T, d)`."""

    spec: RouterSpec
    layer: MoELayer
    routing: Routing
    inputs: Tensor
    outputs: Tensor


Observer = Callable[[Sight], None]


class Taps:
    """Hooks on the routers and layers named by `specs` while the context is open.

    Parameters
    ----------
    layers
        MoE layers by dotted path, as `moe_layers(model)` returns them.
    specs
        The layers to watch.
    observe
        Called once a layer and forward pass, with autocast off, in the thread of the forward pass.

    Notes
    -----
    Hooks must be there before a model is compiled; `uncompiled` unwraps or refuses.
    """

    def __init__(
        self, layers: Mapping[str, MoELayer], specs: Sequence[RouterSpec], observe: Observer
    ) -> None:
        self._layers = layers
        self._specs = specs
        self._observe = observe
        self._handles: list[RemovableHandle] = []
        self._routing: dict[str, Routing] = {}
        self._fired: Counter[str] = Counter()

    def __enter__(self) -> Taps:
        for spec in self._specs:
            layer = self._layers[spec.layer]
            self._handles.append(layer.router.register_forward_hook(self._on_router(spec)))
            self._handles.append(layer.register_forward_hook(self._on_layer(spec)))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._routing.clear()

    def check(self) -> None:
        """Refuse, naming the layer, unless every layer has fired once since the last check."""
        fired, self._fired = self._fired, Counter()
        for spec in self._specs:
            if fired[spec.layer] != 1:
                times = "never" if not fired[spec.layer] else f"{fired[spec.layer]} times"
                raise Refusal(
                    f"layer {spec.layer} ran {times} in one forward pass instead of once; leave it "
                    "out with --layers, or repair the model's forward"
                )

    def _on_router(self, spec: RouterSpec) -> Callable[[nn.Module, Any, Any], None]:
        def hook(module: nn.Module, inputs: Any, routing: Any) -> None:
            self._fired[spec.layer] += 1
            self._routing[spec.layer] = routing

        return hook

    def _on_layer(self, spec: RouterSpec) -> Callable[[nn.Module, Any, Any], None]:
        def hook(module: nn.Module, inputs: Any, outputs: Any) -> None:
            routing = self._routing.pop(spec.layer, None)
            if routing is None:
                return  # `check` reports it
            _check_tokens(spec, routing)
            with torch.autocast(outputs.device.type, enabled=False):
                sight = Sight(
                    spec,
                    self._layers[spec.layer],
                    routing,
                    inputs[0].flatten(1, -2),
                    outputs.flatten(1, -2),
                )
                self._observe(sight)

        return hook


def _check_tokens(spec: RouterSpec, routing: Routing) -> None:
    tokens = routing.logits.shape[1]
    if tokens != spec.tokens:
        raise Refusal(
            f"layer {spec.layer} routed {tokens} tokens where {spec.tokens} were expected; its "
            "shape changes with the input, so leave it out with --layers"
        )


def uncompiled(model: nn.Module) -> nn.Module:
    """The module inside a `torch.compile` wrapper; hooks on a compiled module may be ignored.

    Raises
    ------
    Refusal
        If a part of the model, not the whole, was compiled.
    """
    while hasattr(model, "_orig_mod"):
        model = model._orig_mod  # type: ignore[assignment]
    for name, module in model.named_modules():
        if hasattr(module, "_orig_mod"):
            raise Refusal(
                f"module {name} is compiled, and hooks on compiled modules may be skipped; "
                "capture the model before torch.compile"
            )
    return model
