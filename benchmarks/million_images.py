"""How long does class consistency with its null take for a million images, and in how much memory?

Synthetic profiles, 6 layers × 16 experts, in which the class decides more in each layer; one layer
is read at a time, as the analysis does. Run it alone: the peak is that of the process.

    python -m benchmarks.million_images [--images N] [--permutations M]
"""

from __future__ import annotations

import argparse
import resource
import sys
import time

import numpy as np
from numpy.typing import NDArray

from routelab.analysis.association import Association, associate

LAYERS, EXPERTS, CLASSES = 6, 16, 1000
HEADER = ["images", "layers × experts", "permutations", "minutes", "peak GB", "layers found"]


def profiles(labels: NDArray[np.int64], strength: float, seed: int) -> NDArray[np.float64]:
    """Shares of every image, (n, E); `strength` is what its class adds to the scores."""
    generator = np.random.default_rng(seed)
    scores = generator.standard_normal((len(labels), EXPERTS))
    scores[np.arange(len(labels)), labels % EXPERTS] += strength
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return scores


def peak_gigabytes() -> float:
    """Largest memory that this process has held."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def found(result: Association) -> bool:
    """True where the contrast lies beyond every permutation."""
    return result.observed["contrast"] > result.null["contrast"].max()


def rows(*, images: int = 1_000_000, permutations: int = 999) -> list[list[str]]:
    """One row: what was run, minutes of wall time, and the peak of memory."""
    labels = np.random.default_rng(0).integers(0, CLASSES, images)
    start = time.perf_counter()
    above = 0
    for layer in range(LAYERS):
        above += found(
            associate(
                profiles(labels, 0.01 * layer, layer),
                labels,
                CLASSES,
                draws=permutations,
                resamples=200,
                seed=0,
            )
        )
    minutes = (time.perf_counter() - start) / 60
    size = f"{LAYERS} × {EXPERTS}"
    peak = f"{peak_gigabytes():.2f}"
    return [
        [f"{images:,}", size, str(permutations), f"{minutes:.1f}", peak, f"{above} of {LAYERS}"]
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=1_000_000)
    parser.add_argument("--permutations", type=int, default=999)
    given = parser.parse_args()
    for row in [HEADER, *rows(images=given.images, permutations=given.permutations)]:
        print("  ".join(row))


if __name__ == "__main__":
    main()
