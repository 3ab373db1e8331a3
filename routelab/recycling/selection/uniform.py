"""Uniform selection: evenly spaced neurons, by the published rule of weight selection."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from routelab.recycling.selection.layer import Indices, Neurons, Size


def uniform_indices(available: int, wanted: int) -> Indices:
    """`wanted` of `available` indices, evenly spaced, sorted.

    0, r, 2r, … where `available` is a multiple r of `wanted`; the rounded even spacing
    round(linspace(0, available - 1, wanted)) otherwise. Weight Selection (Xu et al. 2024,
    arXiv 2311.18823), as its code has it.

    Raises
    ------
    ValueError
        If more are wanted than there are.
    """
    if not 1 <= wanted <= available:
        raise ValueError(f"{wanted} of {available} indices cannot be selected")
    if available % wanted == 0:
        return np.arange(wanted, dtype=np.int64) * (available // wanted)
    return np.round(np.linspace(0, available - 1, wanted)).astype(np.int64)


def select_uniform(
    neurons: Neurons, sizes: Sequence[Size], generator: np.random.Generator
) -> list[Indices]:
    """The same evenly spaced neurons for every expert of a group: its experts are copies."""
    return [np.tile(uniform_indices(neurons.available, s.hidden), (s.experts, 1)) for s in sizes]
