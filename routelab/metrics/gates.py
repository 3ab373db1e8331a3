"""How decided is a router about a token, and what do the losses that balance it say?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from routelab.metrics.arrays import finite, masses, same_length, simplex
from routelab.metrics.entropy import shannon_entropy
from routelab.metrics.load import load_share

NAN = float("nan")


class GateEntropies(NamedTuple):
    """Entropies in nats: mean of the tokens' own, of their mean, and the difference (≥ 0)."""

    local: float
    marginal: float
    information: float


def gate_entropies(gates: ArrayLike) -> GateEntropies:
    """Is each token decided, and are all together spread? `gates (…, E)`, rows sum to 1 (L8).

    `information` = marginal − local is the mutual information of token and expert, from 0 to ln E.
    Both entropies near ln E: an undecided, balanced router, which load alone calls healthy.

    >>> undecided = gate_entropies([[0.5, 0.5], [0.5, 0.5]])
    >>> round(undecided.local, 6), undecided.information
    (0.693147, 0.0)
    >>> decided = gate_entropies([[1, 0], [0, 1]])
    >>> decided.local, round(decided.information, 6)
    (0.0, 0.693147)
    """
    rows = simplex(gates, name="gates")
    rows = rows.reshape(-1, rows.shape[-1])
    if not len(rows):
        return GateEntropies(NAN, NAN, NAN)
    local = float(shannon_entropy(rows).mean())
    marginal = float(shannon_entropy(rows.mean(axis=0)))
    return GateEntropies(local, marginal, max(marginal - local, 0.0))


class Hardness(NamedTuple):
    """Mean over tokens of the largest mass, and of its lead over the second."""

    largest: float
    margin: float


def hardness(mass: ArrayLike) -> Hardness:
    """How nearly is the router a choice? Print it beside every argmax of soft routing (rule 11).

    `mass (…, E)`; 1 is a choice, near 1/E the argmax is noise. One expert: margin NaN.

    >>> hardness([[0.9, 0.1], [0.7, 0.3]])
    Hardness(largest=0.8, margin=0.6)
    """
    rows = masses(mass, name="mass")
    rows = rows.reshape(-1, rows.shape[-1])
    if not rows.size:
        return Hardness(NAN, NAN)
    if rows.shape[1] == 1:
        return Hardness(float(rows.mean()), NAN)
    two = np.partition(rows, -2, axis=1)[:, -2:]
    return Hardness(float(two[:, 1].mean()), float((two[:, 1] - two[:, 0]).mean()))


def balance_value(load: ArrayLike, gates: ArrayLike, *, k: int = 1) -> float:
    """Switch balance loss E · Σ f_e P_e: 1 at uniform for k = 1, k at uniform for top-k (L9).

    `load (E,)` counts choices (its shares sum to k a token), `gates (E,)` is the mean gate. The
    value depends on what was pooled (a batch, a layer, all layers): keep that beside it.

    >>> balance_value([1, 1], [0.5, 0.5]), balance_value([2, 0], [1.0, 0.0])
    (1.0, 2.0)
    """
    share, mean = k * load_share(load), masses(gates, name="gates", ndim=1)
    same_length(share, mean, names=("load", "gates"))
    return float(len(share) * (share * mean).sum())


def router_z_value(logits: ArrayLike) -> float:
    """Mean over tokens of (log Σ exp)² of the logits `(…, E)`, the square included (L9).

    >>> round(router_z_value([0.0, 0.0]), 7)  # (ln 2)²
    0.480453
    """
    rows = finite(logits, name="logits")
    return float((logsumexp(rows, axis=-1) ** 2).mean()) if rows.size else NAN
