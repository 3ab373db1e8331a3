"""How are the chosen neurons of an MLP put into stacked experts? One gather a weight, no loop."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from routelab.models import ExpertBank
from routelab.recycling.blocks import DenseMlp
from routelab.recycling.selection.layer import Indices


class ExpertWeights(NamedTuple):
    """Stacked weights as an `ExpertBank` keeps them."""

    fc1_weight: Tensor
    fc1_bias: Tensor
    fc2_weight: Tensor
    fc2_bias: Tensor


def expert_weights(mlp: DenseMlp, neurons: Indices, channels: Indices | None) -> ExpertWeights:
    """Weights of E experts made of hidden neurons of one dense MLP; nothing is rescaled.

    Parameters
    ----------
    mlp
        Of width d and n hidden neurons.
    neurons
        `(E, h)`.
    channels
        `(c,)` shared by all experts, `(E, c)` for each expert its own, or None for all.

    Returns
    -------
    ExpertWeights
        `fc1_weight (E, c, h)`, `fc1_bias (E, h)`, `fc2_weight (E, h, c)`, `fc2_bias (E, c)`.
    """
    hidden = _tensor(neurons, mlp)
    every = np.arange(mlp.width) if channels is None else channels
    kept = _tensor(np.broadcast_to(every, (len(neurons), every.shape[-1])), mlp)
    rows, columns = mlp.fc1.weight.T, mlp.fc2.weight.T  # (d, n), (n, d)
    return ExpertWeights(
        rows[kept[:, :, None], hidden[:, None, :]],
        _bias(mlp.fc1.bias, mlp.hidden, mlp)[hidden],
        columns[hidden[:, :, None], kept[:, None, :]],
        _bias(mlp.fc2.bias, mlp.width, mlp)[kept],
    )


@torch.no_grad()
def fill_bank(
    bank: ExpertBank, weights: ExpertWeights, *, noise: float, generator: torch.Generator
) -> None:
    """Write weights into a bank, in place.

    Normal noise of `noise` times the standard deviation of each matrix makes copies differ.
    """
    for name, weight in weights._asdict().items():
        if noise > 0 and name.endswith("weight"):
            drawn = torch.randn(weight.shape, generator=generator)
            weight = weight + noise * weight.std() * drawn
        getattr(bank, name).copy_(weight)


def _tensor(indices: NDArray[np.int64], mlp: DenseMlp) -> Tensor:
    return torch.from_numpy(np.array(indices)).to(mlp.fc1.weight.device)


def _bias(bias: Tensor | None, size: int, mlp: DenseMlp) -> Tensor:
    """A bias, zero where the layer has none."""
    return mlp.fc1.weight.new_zeros(size) if bias is None else bias
