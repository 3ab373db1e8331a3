"""Importance selection: neurons that act more are taken more often."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from routelab.recycling.selection.drawing import weighted_draws
from routelab.recycling.selection.layer import FloatArray, Indices, Neurons, Size

Draw = Literal["sample", "top"]


def important_neurons(
    score: FloatArray,
    experts: int,
    hidden: int,
    generator: np.random.Generator,
    *,
    draw: Draw = "sample",
) -> Indices:
    """Sorted indices `(experts, hidden)` chosen by a score `(n,)` ≥ 0 of each neuron.

    "sample" draws without replacement with probability in proportion to the score, anew for each
    expert (MoE Jetpack, arXiv 2406.04801, section 3.1); "top" takes the highest scores, the same
    for all experts, ties by the lowest index.
    """
    if draw == "top":
        highest = np.argsort(-np.asarray(score), kind="stable")[:hidden]
        return np.tile(np.sort(highest).astype(np.int64), (experts, 1))
    return np.sort(weighted_draws(score, hidden, experts, generator), axis=1)


def select_important(
    neurons: Neurons,
    sizes: Sequence[Size],
    generator: np.random.Generator,
    *,
    draw: Draw = "sample",
) -> list[Indices]:
    """Neurons for each group of a layer, by the layer's score.

    Raises
    ------
    ValueError
        If the layer has no score.
    """
    if neurons.score is None:
        raise ValueError("importance selection needs a score of each neuron")
    return [
        important_neurons(neurons.score, s.experts, s.hidden, generator, draw=draw) for s in sizes
    ]
