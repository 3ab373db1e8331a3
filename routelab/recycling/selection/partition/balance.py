"""How does a partition get parts of exactly the wanted sizes, at the least loss of weight?"""

from __future__ import annotations

import numpy as np

from routelab.recycling.selection.layer import FloatArray, Indices

SWAPS = 32
"""Most swaps after balancing: it mends what exact sizes broke, and is no partitioner itself."""

LOOSE = 256
"""Nodes among which the best swap is looked for."""

TINY = 1e-9
"""Relative gain that is rounding."""


def even_sizes(count: int, parts: int) -> Indices:
    """Sizes `(parts,)` that sum to `count` and differ by at most one, the larger ones first."""
    base, extra = divmod(count, parts)
    return np.full(parts, base, dtype=np.int64) + (np.arange(parts) < extra)


def rebalanced(part: Indices, weights: FloatArray, parts: int) -> Indices:
    """The partition `(n,)` moved to parts whose sizes differ by at most one.

    One node at a time leaves an overfull part for one with room: the node and part that gain the
    most (or lose the least) of the symmetric edge weights `(n, n)` inside parts. The larger parts
    may be the larger ones afterwards, so that few nodes move.
    """
    part = np.array(part, dtype=np.int64)
    sizes = np.bincount(part, minlength=parts)
    wanted = np.empty(parts, dtype=np.int64)
    wanted[np.argsort(-sizes, kind="stable")] = even_sizes(len(part), parts)
    affinity = weights @ np.eye(parts)[part]  # (n, parts): weight of each node into each part
    nodes = np.arange(len(part))
    while (sizes > wanted).any():
        movable = nodes[sizes[part] > wanted[part]]
        room = np.flatnonzero(sizes < wanted)
        own = affinity[movable, part[movable]]
        gain = affinity[np.ix_(movable, room)] - own[:, None]
        best, place = np.unravel_index(int(gain.argmax()), gain.shape)
        node, target = movable[best], room[place]
        affinity[:, part[node]] -= weights[:, node]
        affinity[:, target] += weights[:, node]
        sizes[part[node]] -= 1
        sizes[target] += 1
        part[node] = target
    return part


def swapped(part: Indices, weights: FloatArray, parts: int, *, swaps: int = SWAPS) -> Indices:
    """The partition `(n,)` after the best swaps of two nodes, while they gain; sizes stay.

    Swapping i and j gains what each is tied to the other's part more than to its own, less 2 w_ij
    (Kernighan and Lin 1970); looked for among the nodes that would gain the most by leaving.
    """
    part = np.array(part, dtype=np.int64)
    affinity = weights @ np.eye(parts)[part]
    for _ in range(swaps if parts > 1 else 0):
        leaving = affinity - np.take_along_axis(affinity, part[:, None], axis=1)
        np.put_along_axis(leaving, part[:, None], -np.inf, axis=1)
        loose = np.argsort(-leaving.max(axis=1), kind="stable")[:LOOSE]
        gain = leaving[loose][:, part[loose]]
        gain = gain + gain.T - 2 * weights[np.ix_(loose, loose)]
        one, two = np.unravel_index(int(gain.argmax()), gain.shape)
        if not gain[one, two] > TINY * weights.max():
            break
        first, second = loose[one], loose[two]
        moved = weights[:, second] - weights[:, first]
        affinity[:, part[first]] += moved
        affinity[:, part[second]] -= moved
        part[[first, second]] = part[[second, first]]
    return part
