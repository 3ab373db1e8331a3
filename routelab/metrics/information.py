"""Where does a router's information lie: in the class, the image, the token, or nowhere?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from routelab.metrics.arrays import FloatArray, classes_of, ratio, same_length, simplex
from routelab.metrics.entropy import shannon_entropy
from routelab.metrics.profiles import (
    at_top,
    class_profile,
    counted_tokens,
    image_profile,
    image_weights,
)

NAN = float("nan")


class InformationBudget(NamedTuple):
    """Four terms (nats) that add up to `total`, the entropy of the global profile.

    `of_class` + `of_image` (image given class) + `of_token` (token given image) + `residual` (what
    stays undecided within a token). Plug-in terms are biased up, the class term by about
    (C−1)(E−1)/2n; subtract its mean under shuffled labels. `reason` is "tied" where the tokens of
    every image are routed alike, so that the token term is 0 by construction, and says why
    `of_class` is NaN (it is then part of `of_image`).
    """

    of_class: float
    of_image: float
    of_token: float
    residual: float
    total: float
    reason: str


def information_budget(
    labels: ArrayLike,
    mass: ArrayLike,
    *,
    balanced: bool = False,
    tokens: ArrayLike | None = None,
) -> InformationBudget:
    """Chain rule of the generalised Jensen–Shannon divergence over class, image and token (I1).

    H(p̄) = [H(p̄) − mean H(R_c)] + [mean H(R_c) − mean H(π_i)] + [mean H(π_i) − mean H(m_it)]
    + mean H(m_it), with the same weight of images in all four.

    Parameters
    ----------
    labels
        Class of each image, `(n,)`.
    mass
        Token→expert mass `(n, T, E)`, rows sum to 1. Image-level routing has T = 1 or equal tokens,
        and its token term is 0 by construction.
    balanced
        Weigh images 1/(C n_c), so that every class counts alike, instead of 1/n.
    tokens
        Tokens that count, `(n, T)`; leave padding and dropped ones out.

    Raises
    ------
    ValueError
        For rows that do not sum to 1, and an image without a token that counts.

    >>> hard = np.eye(2)[[[0], [0], [1], [1]]]
    >>> round(information_budget([0, 0, 1, 1], hard).of_class, 6)  # all of ln 2
    0.693147
    """
    rows, counted = _shares(mass, tokens)
    numbers = classes_of(labels)
    same_length(numbers, rows, names=("labels", "mass"))
    if not len(rows):
        return InformationBudget(NAN, NAN, NAN, NAN, NAN, "no image")
    weights = image_weights(numbers, balanced=balanced)
    profile = image_profile(rows, tokens=counted)
    class_weight = np.bincount(numbers, weights)
    used = class_weight > 0
    total = float(shannon_entropy(weights @ profile))
    by_class = class_profile(numbers, profile)[used]
    given_class = float(class_weight[used] @ shannon_entropy(by_class))
    given_image = float(weights @ shannon_entropy(profile))
    residual = float(weights @ _token_mean(shannon_entropy(rows), counted))
    tied = "tied" if _tied(rows, counted) else ""
    of_image, of_token = max(given_class - given_image, 0.0), max(given_image - residual, 0.0)
    if used.sum() < 2:
        return InformationBudget(NAN, of_image, of_token, residual, total, "degenerate: one class")
    of_class = max(total - given_class, 0.0)
    return InformationBudget(of_class, of_image, of_token, residual, total, tied)


def budget_ceiling(experts: int) -> float:
    """The most that a budget can hold: ln E nats."""
    return float(np.log(experts))


def budget_bias(*, classes: int, experts: int, images: int) -> float:
    """About how much a class term is too large by chance, (C−1)(E−1)/2n nats for hard routing (I1).

    Good enough to plan a capture; `consistency_test` measures it.

    >>> round(budget_bias(classes=100, experts=8, images=1000), 4)
    0.3465
    """
    return (classes - 1) * (experts - 1) / (2 * images)


def position_profile(mass: ArrayLike, *, tokens: ArrayLike | None = None) -> FloatArray:
    """Mean mass of each position over images, `(T, E)`: reshape T to the grid for a map (I2).

    A position that counts in no image is a NaN row.
    """
    rows, counted = counted_tokens(mass, tokens)
    return ratio(np.einsum("nt,nte->te", counted, rows), counted.sum(axis=0)[:, None])


def position_information(mass: ArrayLike) -> float:
    """Mutual information of expert and token position, in nats, from mass `(n, T, E)` (I2).

    H(p̄) − mean over positions of H(mean over images): 0 where all positions use experts alike, at
    most min(ln T, ln E). Images must share one grid of positions.

    >>> by_place = np.broadcast_to(np.eye(2), (3, 2, 2))  # position t always takes expert t
    >>> round(position_information(by_place), 6)
    0.693147
    """
    rows, _ = _shares(mass, None)
    if not rows.size:
        return NAN
    by_position = rows.mean(axis=0)
    spread = shannon_entropy(by_position.mean(axis=0)) - shannon_entropy(by_position).mean()
    return max(float(spread), 0.0)


def tying_disagreement(mass: ArrayLike, *, tokens: ArrayLike | None = None) -> FloatArray:
    """Share of each image's tokens whose top expert is not the image's, `(n,)` (I4).

    0 under image-level routing by construction; ties go to the lowest index. Tokens without mass
    (dropped) are left out, and an image without any is NaN.

    >>> tying_disagreement([[[0.9, 0.1], [0.4, 0.6]], [[0.2, 0.8], [0.7, 0.3]]])
    array([0.5, 0.5])
    """
    rows, counted = counted_tokens(mass, tokens)
    image = at_top(rows.sum(axis=1)).argmax(axis=1)
    routed = (rows.sum(axis=2) > 0) & (counted > 0)
    away = (at_top(rows).argmax(axis=2) != image[:, None]) & routed
    return ratio(away.sum(axis=1), routed.sum(axis=1))


def _shares(mass: ArrayLike, tokens: ArrayLike | None) -> tuple[FloatArray, FloatArray]:
    """Rows that sum to 1 where a token counts and 0 elsewhere, and which count."""
    rows, counted = counted_tokens(mass, tokens)
    if rows.size and not (counted.sum(axis=1) > 0).all():
        raise ValueError("an image has no token that counts; leave it out first")
    if tokens is not None:  # rows are a copy: let what does not count be certain, of entropy 0
        rows[counted == 0, :1] = 1.0
    return simplex(rows, name="mass"), counted


def _token_mean(values: FloatArray, counted: FloatArray) -> FloatArray:
    """Mean over the tokens that count, `(n,)`."""
    return ratio((values * counted).sum(axis=1), counted.sum(axis=1))


def _tied(rows: FloatArray, counted: FloatArray) -> bool:
    """Whether the tokens of every image are routed exactly alike."""
    kept = counted[..., None] > 0
    low = np.where(kept, rows, np.inf).min(axis=1)
    high = np.where(kept, rows, -np.inf).max(axis=1)
    return bool((low == high).all())
