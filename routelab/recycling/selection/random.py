"""Random selection: every expert takes a random subset of the neurons."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from routelab.recycling.selection.drawing import weighted_draws
from routelab.recycling.selection.layer import Indices, Neurons, Size


def random_neurons(
    available: int, experts: int, hidden: int, generator: np.random.Generator
) -> Indices:
    """Sorted random subsets `(experts, hidden)` of 0 … available-1, independent of each other."""
    return np.sort(weighted_draws(np.ones(available), hidden, experts, generator), axis=1)


def select_random(
    neurons: Neurons, sizes: Sequence[Size], generator: np.random.Generator
) -> list[Indices]:
    """Random subsets for each group of a layer."""
    return [random_neurons(neurons.available, s.experts, s.hidden, generator) for s in sizes]
