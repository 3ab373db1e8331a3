"""What do the per-image tables and the sums of a routing come to? Written plainly, in float64.

This is the second implementation beside the one of `routelab.capture`, which runs on the device;
the two share no code, so that each can test the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from routelab.records import RouterSpec
from routelab.testing.decisions import Decision

FloatArray = NDArray[np.float64]
Tables = dict[str, NDArray[Any]]


def image_tables(decision: Decision, spec: RouterSpec) -> Tables:
    """One row an image: where its patch tokens went, and how sure they were."""
    mass = decision.mass[:, spec.prefix :]
    total = mass.sum(axis=2)
    routed = total > 0
    share = mass / np.where(routed, total, 1)[..., None]
    best = share.argmax(axis=2)
    ordered = np.sort(share, axis=2)
    runner_up = ordered[..., -2] if spec.experts > 1 else np.zeros(total.shape)
    profile = mass.mean(axis=1)
    away = best != profile.argmax(axis=1)[:, None]
    tables: Tables = {
        "profile": profile,
        "hits": (one_hot(best, spec.experts) * routed[..., None]).sum(axis=1).astype(np.int32),
        "token_entropy": mean_over(entropy(share), routed),
        "hardness": mean_over(ordered[..., -1], routed),
        "margin": mean_over(ordered[..., -1] - runner_up, routed),
        "disagreement": mean_over(away, routed),
        "coherence": coherence(best, routed, spec),
    }
    if spec.prefix:
        tables["prefix_mass"] = decision.mass[:, : spec.prefix]
    if decision.dispatch is not None:
        columns = decision.dispatch.transpose(0, 2, 1)
        tables["effective_tokens"] = np.exp(entropy(columns)).mean(axis=1)
    else:
        lost = decision.stored["slot"][:, spec.prefix :] < 0
        tables["dropped"] = lost.mean(axis=(1, 2))
        tables["gate_probs_profile"] = decision.stored["probs"][:, spec.prefix :].mean(
            axis=1, dtype=np.float64
        )
    return tables


def layer_sums(
    decision: Decision, tables: Tables, labels: NDArray[np.int64], classes: int, spec: RouterSpec
) -> Tables:
    """What these images add to the totals of a layer."""
    mass = decision.mass[:, spec.prefix :]
    together = mass if spec.soft else decision.kept[:, spec.prefix :]
    total = mass.sum(axis=2)
    share = mass[total > 0] / total[total > 0][:, None]
    of_class = one_hot(labels, classes)
    return {
        "class_mass": of_class.T @ tables["profile"],
        "class_count": of_class.sum(axis=0),
        "coactivation": np.einsum("bti,btj->ij", together, together),
        "position_mass": mass.sum(axis=0),
        "load": tables["hits"].sum(axis=0),
        "mass_log_mass": np.asarray(-entropy(share).sum()),
        "tokens": np.asarray((total > 0).sum()),
    }


def entropy(shares: FloatArray) -> FloatArray:
    """−Σ p ln p over the last axis, nats; 0 ln 0 is 0."""
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    return -(shares * logs).sum(axis=-1)


def one_hot(numbers: NDArray[np.int64], length: int) -> FloatArray:
    """1 at each number's place on a new last axis, else 0."""
    return (numbers[..., None] == np.arange(length)).astype(np.float64)


def mean_over(values: NDArray[Any], counted: NDArray[np.bool_]) -> FloatArray:
    """Mean over the second axis of the counted values; NaN where none is."""
    number = counted.sum(axis=1)
    total = np.where(counted, values, 0).sum(axis=1)
    return np.divide(total, number, out=np.full(len(number), np.nan), where=number > 0)


def coherence(best: NDArray[np.int64], routed: NDArray[np.bool_], spec: RouterSpec) -> FloatArray:
    """Share of horizontal and vertical neighbours that went to the same expert; NaN without any."""
    if spec.grid is None:
        return np.full(len(best), np.nan)
    chosen, there = best.reshape(-1, *spec.grid), routed.reshape(-1, *spec.grid)
    same = np.zeros(len(best))
    pairs = np.zeros(len(best))
    for axis in (1, 2):
        first = np.arange(spec.grid[axis - 1] - 1)
        both = there.take(first, axis) & there.take(first + 1, axis)
        equal = chosen.take(first, axis) == chosen.take(first + 1, axis)
        same += (both & equal).sum(axis=(1, 2))
        pairs += both.sum(axis=(1, 2))
    return np.divide(same, pairs, out=np.full(len(best), np.nan), where=pairs > 0)
