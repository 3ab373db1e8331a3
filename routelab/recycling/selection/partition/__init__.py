"""Partitioners of a weighted graph: one file and one registry line each."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Literal

from routelab.recycling.selection.layer import FloatArray, Indices
from routelab.recycling.selection.partition.balance import even_sizes, rebalanced, swapped
from routelab.recycling.selection.partition.louvain import louvain_partition
from routelab.recycling.selection.partition.metis import metis_partition
from routelab.recycling.selection.partition.spectral import spectral_partition

Partitioner = Literal["metis", "louvain", "spectral"]

PARTITIONERS: dict[str, Callable[[FloatArray, int, int], Indices]] = {
    "metis": metis_partition,
    "louvain": louvain_partition,
    "spectral": spectral_partition,
}
"""Name → what cuts a graph `(n, n)` into at most so many parts, with a seed."""

FALLBACK = (
    "pymetis is not installed, so the graph is partitioned by spectral clustering; "
    "install it with: pip install 'routelab[recycling]'"
)


def partition(
    weights: FloatArray, parts: int, seed: int, *, method: Partitioner = "metis"
) -> Indices:
    """Part of each node `(n,)`, parts of sizes that differ by at most one; same seed, same parts.

    Without pymetis, "metis" is done by spectral clustering, see `available_method`.
    """
    found = PARTITIONERS[available_method(method)](weights, parts, seed)
    return swapped(rebalanced(found, weights, parts), weights, parts)


def available_method(method: Partitioner) -> Partitioner:
    """The method itself, or "spectral" where it is METIS and pymetis is missing."""
    if method == "metis" and importlib.util.find_spec("pymetis") is None:
        return "spectral"
    return method


__all__ = [
    "FALLBACK",
    "PARTITIONERS",
    "Partitioner",
    "available_method",
    "even_sizes",
    "louvain_partition",
    "metis_partition",
    "partition",
    "rebalanced",
    "spectral_partition",
    "swapped",
]
