"""Which layers fit into a file that can still be mailed, and in which order do classes stand?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MOST_CELLS = 400_000
"""Of all heat maps of one section together: about two megabytes."""


def fitting(layers: int, cells: int) -> list[int]:
    """Places of the layers whose maps of `cells` cells fit; always one at least."""
    return spread(layers, max(1, MOST_CELLS // max(cells, 1)))


def spread(places: int, most: int) -> list[int]:
    """At most `most` of `places`, evenly spread, the last among them."""
    if places <= most:
        return list(range(places))
    return sorted({int(place) for place in np.linspace(places - 1, 0, most).round()})


def used_experts(*arrays: NDArray[np.float64]) -> int:
    """Experts before the padding: the last axis up to its last number that is not NaN."""
    last = [np.flatnonzero(np.isfinite(a.reshape(-1, a.shape[-1])).any(axis=0)) for a in arrays]
    return max((int(found.max(initial=0)) for found in last), default=0) + 1


def profile_order(profile: NDArray[np.float64]) -> list[int]:
    """Classes by their largest expert, the surest first; classes without images last."""
    filled = np.where(np.isfinite(profile), profile, -1.0)
    top = filled.argmax(axis=1)
    largest = filled.max(axis=1)
    top[largest < 0] = profile.shape[1]
    return [int(place) for place in np.lexsort((-largest, top))]
