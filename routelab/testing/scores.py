"""What do the tokens of a planted store want? Scores of every token for every expert.

Each kind is one function `(scene, layer, rng) -> (b, N, E)`; `SCORES` names them. Noise aside, a
score is 0 where a token does not care.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

STRONG = 4.0
"""Score that wins a token nearly always against noise of standard deviation 1."""
CLEAR = 2.5
"""Score that wins most tokens."""
NEVER = 12.0
"""Score that no noise overcomes."""


@dataclass(frozen=True)
class Scene:
    """The images that are routed: their classes, and where their tokens lie.

    Attributes
    ----------
    labels
        Class of each image, shape (b,).
    experts, layers
        E, and the number of layers.
    prefix, grid
        Tokens before the patches, and the patches' (height, width); one token and no grid where one
        decision serves a whole image.
    """

    labels: NDArray[np.int64]
    experts: int
    layers: int
    prefix: int
    grid: tuple[int, int] | None

    @property
    def tokens(self) -> int:
        """N, the tokens that are routed."""
        return self.prefix + (1 if self.grid is None else self.grid[0] * self.grid[1])


Score = Callable[[Scene, int, np.random.Generator], FloatArray]


def healthy(scene: Scene, layer: int, rng: np.random.Generator) -> FloatArray:
    """Class decides a little in the first layer and much in the last."""
    return _noise(scene, rng) + _by_class(scene, CLEAR * (layer + 1) / scene.layers)


def dead_expert(scene: Scene, layer: int, rng: np.random.Generator) -> FloatArray:
    """As `healthy`, but no token wants the last expert."""
    scores = healthy(scene, layer, rng)
    scores[..., -1] -= 2 * NEVER
    return scores


def collapsed(scene: Scene, layer: int, rng: np.random.Generator) -> FloatArray:
    """Every token wants expert 0."""
    scores = _noise(scene, rng)
    scores[..., 0] += NEVER
    return scores


def class_in_one_layer(scene: Scene, layer: int, rng: np.random.Generator) -> FloatArray:
    """Class decides in the middle layer and nowhere else."""
    strength = STRONG if layer == scene.layers // 2 else 0.0
    return _noise(scene, rng) + _by_class(scene, strength)


def position(scene: Scene, layer: int, rng: np.random.Generator) -> FloatArray:
    """A patch's place decides, whatever the image shows: experts have bands of equal height."""
    if scene.grid is None:
        raise ValueError("position routing needs tokens; image-level routing has none")
    height, width = scene.grid
    band = np.arange(height) * scene.experts // height
    scores = _noise(scene, rng)
    scores[:, scene.prefix :] += STRONG * np.eye(scene.experts)[np.repeat(band, width)]
    return scores


def uniform(scene: Scene, layer: int, rng: np.random.Generator) -> FloatArray:
    """Nothing decides: every token gives every expert nearly the same."""
    return rng.normal(0, 0.02, (len(scene.labels), scene.tokens, scene.experts))


SCORES: Mapping[str, Score] = {
    "healthy": healthy,
    "dead_expert": dead_expert,
    "collapsed": collapsed,
    "swapped_axes": healthy,
    "class_in_one_layer": class_in_one_layer,
    "position": position,
    "uniform": uniform,
}


def _noise(scene: Scene, rng: np.random.Generator) -> FloatArray:
    """What tokens want for reasons of their own; half of it is shared by an image's tokens."""
    shape = (len(scene.labels), scene.tokens, scene.experts)
    return rng.normal(0, 0.7, (shape[0], 1, shape[2])) + rng.normal(0, 0.7, shape)


def _by_class(scene: Scene, strength: float) -> FloatArray:
    """`strength` for the expert of the image's class, shape (b, 1, E); class c has c mod E."""
    return strength * np.eye(scene.experts)[scene.labels % scene.experts][:, None, :]
