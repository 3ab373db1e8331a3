"""What do planted images look like, and what features do they have? Enough to be told apart."""

from __future__ import annotations

import colorsys

import numpy as np
from numpy.typing import NDArray

SIDE = 32


def thumbnails(
    labels: NDArray[np.int64], classes: int, rng: np.random.Generator
) -> NDArray[np.uint8]:
    """A bright disc in the colour of the class, somewhere on a dark ground, (b, 32, 32, 3)."""
    place = np.arange(SIDE)
    centre = rng.uniform(10, SIDE - 10, (len(labels), 2, 1))
    down = (place - centre[:, 0])[:, :, None]
    right = (place - centre[:, 1])[:, None, :]
    disc = (down**2 + right**2 < 9**2)[..., None]
    wheel = np.array([colorsys.hsv_to_rgb(c / classes, 0.7, 1.0) for c in range(classes)])
    ground = rng.uniform(0.1, 0.3, (len(labels), SIDE, SIDE, 1))
    picture = np.where(disc, wheel[labels][:, None, None, :], ground)
    return (255 * picture).astype(np.uint8)


def features(
    labels: NDArray[np.int64], depth: float, width: int, rng: np.random.Generator
) -> dict[str, NDArray[np.float16]]:
    """Pooled and class-token features of a layer's input and output, (b, width) float16.

    Classes lie on directions of their own and move apart with `depth`, from 0 to 1.
    """
    directions = np.random.default_rng(7).normal(size=(int(labels.max(initial=0)) + 1, width))
    named = {}
    for name, gain in (
        ("pooled", 1.0),
        ("pooled_output", 1.2),
        ("class_token", 1.0),
        ("class_token_output", 1.2),
    ):
        noise = rng.normal(size=(len(labels), width))
        named[name] = (gain * depth * directions[labels] + noise).astype(np.float16)
    return named
