"""Where does a router's information lie: in the class, the image, the token, or nowhere?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from routelab.metrics.arrays import FloatArray, classes_of, masses, same_length
from routelab.metrics.entropy import shannon_entropy
from routelab.metrics.profiles import class_profile, image_profile


class InformationBudget(NamedTuple):
    """Four terms (nats) that add up to `total`, the entropy of the global profile.

    `of_class` + `of_image` (image given class) + `of_token` (token given image) + `residual` (what
    stays undecided within a token). Plug-in terms are biased up; subtract the mean under shuffled
    labels from `of_class`.
    """

    of_class: float
    of_image: float
    of_token: float
    residual: float
    total: float


def information_budget(
    labels: ArrayLike, mass: ArrayLike, *, balanced: bool = False
) -> InformationBudget:
    """Chain rule of the generalised Jensen–Shannon divergence over class, image and token (I1).

    Parameters
    ----------
    labels
        Class of each image, `(n,)`.
    mass
        Token→expert mass `(n, T, E)`, rows sum to 1. Image-level routing has T = 1 or equal tokens,
        and its token term is 0 by construction.
    balanced
        Weigh images 1/(C n_c), so that every class counts alike, instead of 1/n.
    """
    rows, numbers = masses(mass, name="mass", ndim=3), classes_of(labels)
    same_length(numbers, rows, names=("labels", "mass"))
    if not len(rows):
        return InformationBudget(*(float("nan"),) * 5)
    counts = np.bincount(numbers)
    weights = 1 / counts[numbers] if balanced else np.ones(len(rows))
    weights = weights / weights.sum()
    profile = image_profile(rows)
    by_class = class_profile(numbers, profile)
    class_weight = np.bincount(numbers, weights)
    used = counts > 0
    total = float(shannon_entropy(weights @ profile))
    given_class = float(class_weight[used] @ shannon_entropy(by_class[used]))
    given_image = float(weights @ shannon_entropy(profile))
    residual = float(weights @ shannon_entropy(rows).mean(axis=1))
    terms = (total - given_class, given_class - given_image, given_image - residual)
    return InformationBudget(*(max(term, 0.0) for term in terms), residual, total)


def position_information(mass: ArrayLike) -> float:
    """Mutual information of expert and token position, in nats, from mass `(n, T, E)` (I2).

    H of the global profile minus the mean over positions of the H of the position's profile.
    """
    rows = masses(mass, name="mass", ndim=3)
    if not rows.size:
        return float("nan")
    by_position = rows.mean(axis=0)
    spread = shannon_entropy(by_position.mean(axis=0)) - shannon_entropy(by_position).mean()
    return max(float(spread), 0.0)


def tying_disagreement(mass: ArrayLike) -> NDArray[np.float64]:
    """Share of each image's tokens whose top expert is not the image's, `(n,)` (I4).

    0 under image-level routing by construction; ties go to the lowest index. Tokens without mass
    (dropped) are left out, and an image without any is NaN.

    >>> tying_disagreement([[[0.9, 0.1], [0.4, 0.6]], [[0.2, 0.8], [0.7, 0.3]]])
    array([0.5, 0.5])
    """
    rows = masses(mass, name="mass", ndim=3)
    image = image_profile(rows).argmax(axis=1)
    routed = rows.sum(axis=2) > 0
    away = (rows.argmax(axis=2) != image[:, None]) & routed
    counts = routed.sum(axis=1)
    return np.divide(away.sum(axis=1), counts, out=np.full(len(rows), np.nan), where=counts > 0)


def budget_ceiling(experts: int) -> float:
    """The most that a budget can hold: ln E nats."""
    return float(np.log(experts))


def position_profile(mass: ArrayLike) -> FloatArray:
    """Mean mass of each position, `(T, E)`: reshape T to the grid for a map (I2)."""
    return masses(mass, name="mass", ndim=3).mean(axis=0)
