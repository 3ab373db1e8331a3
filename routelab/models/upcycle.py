"""How does a trained dense model start a MoE model? Its MLPs are copied into experts."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from routelab.models.build import mlp_blocks, moe_layers
from routelab.models.experts import ExpertBank
from routelab.records import Refusal


@torch.no_grad()
def copy_dense(dense: nn.Module, moe: nn.Module) -> None:
    """Copy a dense model into a MoE model of the same architecture, in place.

    Every expert becomes a copy of the dense MLP that stood in its block (Sparse Upcycling,
    Komatsuzaki et al. 2023); an expert with fewer hidden neurons keeps evenly spaced ones. Shared
    experts are copies too. Routers stay freshly initialised.

    Raises
    ------
    Refusal
        If a weight outside the MoE layers is missing or has another shape.
    """
    layers = moe_layers(moe)
    inside = tuple(f"{name}." for name in layers)
    source, target = dense.state_dict(), moe.state_dict()
    for name, weight in target.items():
        if name.startswith(inside):
            continue
        if name not in source or source[name].shape != weight.shape:
            raise Refusal(
                f"the dense model cannot be copied: its weight {name} is missing or not of shape "
                f"{tuple(weight.shape)}; build both models with the same architecture and arguments"
            )
        weight.copy_(source[name])
    blocks = mlp_blocks(dense)
    for name, layer in layers.items():
        mlp = blocks[name.rsplit(".", 1)[0]].get_submodule("mlp")
        banks = layer.experts.in_order()
        if layer.shared is not None:
            banks.append(layer.shared.bank)
        for bank in banks:
            _fill(bank, mlp)


def _fill(bank: ExpertBank, mlp: nn.Module) -> None:
    """Every expert of a bank becomes the dense MLP, or evenly spaced neurons of it."""
    fc1, fc2 = mlp.get_submodule("fc1"), mlp.get_submodule("fc2")
    if not isinstance(fc1, nn.Linear) or not isinstance(fc2, nn.Linear):
        raise Refusal(f"{type(mlp).__name__} has no linear layers fc1 and fc2 to copy")
    neurons = evenly_spaced(fc1.out_features, bank.fc1_weight.shape[2]).to(fc1.weight.device)
    bank.fc1_weight.copy_(fc1.weight[neurons].T)
    bank.fc1_bias.copy_(fc1.bias[neurons])
    bank.fc2_weight.copy_(fc2.weight[:, neurons].T)
    bank.fc2_bias.copy_(fc2.bias)


def evenly_spaced(available: int, wanted: int) -> Tensor:
    """`wanted` of `available` indices, evenly spaced; all of them, in order, where equal.

    Raises
    ------
    Refusal
        If more are wanted than there are.
    """
    if wanted > available:
        raise Refusal(
            f"an expert of {wanted} hidden neurons cannot be copied from an MLP of {available}; "
            "lower the group's hidden_ratio"
        )
    return torch.arange(wanted) * available // wanted
