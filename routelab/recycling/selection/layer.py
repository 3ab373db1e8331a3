"""What is known of a layer's hidden neurons, and how many does each group of experts want?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from routelab.records import Refusal

Indices = NDArray[np.int64]
FloatArray = NDArray[np.float64]


class Coactivation(NamedTuple):
    """How often neurons act together, over `tokens` tokens.

    `together (n, n)` is FᵀF and `alone (n,)` the column sums of F, the firing indicator (or the
    positive part of the activation) of each token and neuron.
    """

    together: FloatArray
    alone: FloatArray
    tokens: int


class Neurons(NamedTuple):
    """The hidden neurons of one dense MLP, with what was measured of them."""

    available: int
    score: FloatArray | None = None
    coactivation: Coactivation | None = None


class Size(NamedTuple):
    """A group of `experts` experts with `hidden` neurons each."""

    experts: int
    hidden: int


Select = Callable[[Neurons, Sequence[Size], np.random.Generator], list[Indices]]
"""Neurons of a layer, sizes of its groups and a generator in; indices `(E, h)` a group out.

Each row is sorted and holds no neuron twice.
"""


def check_sizes(available: int, sizes: Sequence[Size]) -> None:
    """Refuse experts of more neurons than the MLP has.

    Raises
    ------
    Refusal
        Naming the size and what is there.
    """
    largest = max(size.hidden for size in sizes)
    if largest > available:
        raise Refusal(
            f"an expert of {largest} hidden neurons cannot be recycled from an MLP of {available} "
            "without taking neurons twice; lower its hidden ratio"
        )
    if min(size.hidden for size in sizes) < 1:
        raise Refusal("an expert needs at least one hidden neuron; raise its hidden ratio")
