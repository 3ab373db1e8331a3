"""Into which terms does the entropy of a layer's mean routing fall?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from routelab import metrics
from routelab.analysis import class_statistics as of
from routelab.analysis.class_sums import ClassSums, Sums, halves, permutations

FloatArray = NDArray[np.float64]

TERMS = ("class", "image", "token", "residual")
ROUNDING = 1e-5
"""Nats; a term below 0 by less is 0, since the tables are stored in float32."""


class Budget(NamedTuple):
    """Terms in the order of `TERMS`, nats.

    Attributes
    ----------
    terms
        They add up to the entropy of the mean profile, (4,).
    error
        Standard errors from halves of the images, (4,).
    null
        The class term under shuffled labels, (draws,).
    """

    terms: FloatArray
    error: FloatArray
    null: FloatArray


def measure_budget(
    shares: FloatArray,
    token_entropy: FloatArray,
    labels: NDArray[np.int64],
    classes: int,
    *,
    draws: int,
    resamples: int,
    seed: int,
) -> Budget:
    """Split H(p̄) into class, image | class, token | image and residual (catalogue I1).

    H(p̄) = [H(p̄) − Σ n_c/n H(R_c)] + [Σ n_c/n H(R_c) − mean H(π_i)] + [mean H(π_i) − mean h_i]
    + mean h_i, with h_i the mean entropy of the image's tokens; images weigh alike.

    Parameters
    ----------
    shares
        Image profiles, (n, E), rows that sum to 1; a NaN row is left out.
    token_entropy
        h_i, (n,), nats.
    labels
        Classes, (n,).
    classes
        C.
    draws, resamples, seed
        Numbers of permutations and of halves, and their seed.
    """
    valid = np.isfinite(shares).all(axis=1) & np.isfinite(token_entropy)
    own, rows = labels[valid].astype(np.int32), shares[valid]
    sums = ClassSums(rows, classes)
    entropies = np.stack([metrics.shannon_entropy(rows), token_entropy[valid]], axis=1)
    null = [of.information(sums.under(block).mass) for block in permutations(own, draws, seed=seed)]
    subsets = [
        _terms(sums.weighted(own, block.astype(np.float64)), block @ entropies)
        for block in halves(own, resamples, seed=seed)
    ]
    everyone = np.ones((1, len(own)))
    return Budget(
        _terms(sums.weighted(own, everyone), everyone @ entropies)[0],
        np.concatenate(subsets).std(axis=0),
        np.concatenate([np.zeros(0), *null]),
    )


def _terms(sums: Sums, entropies: FloatArray) -> FloatArray:
    """The four terms (draws, 4) from sums by class and sums of H(π_i) and h_i (draws, 2)."""
    of_image, of_token = (entropies / sums.counts.sum(axis=1, keepdims=True)).T
    mean = sums.mass.sum(axis=1) / sums.mass.sum(axis=(1, 2))[:, None]
    total, of_class = metrics.shannon_entropy(mean), of.information(sums.mass)
    columns = [of_class, total - of_class - of_image, of_image - of_token, of_token]
    terms = np.stack(columns, axis=1)
    return np.where((terms < 0) & (terms > -ROUNDING), 0.0, terms)
