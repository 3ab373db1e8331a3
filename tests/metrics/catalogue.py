"""The little worlds on which the catalogue of metrics works its examples by hand."""

import numpy as np
from hypothesis import strategies as st

LABELS = np.array([0, 0, 1, 1])
ASSIGNMENTS = {
    "perfect": np.array([0, 0, 1, 1]),
    "partial": np.array([0, 0, 1, 0]),
    "independent": np.array([0, 1, 0, 1]),
    "collapsed": np.array([0, 0, 0, 0]),
}
GATES = np.array(
    [
        [[0.9, 0.1], [0.7, 0.3]],
        [[0.8, 0.2], [0.8, 0.2]],
        [[0.4, 0.6], [0.2, 0.8]],
        [[0.1, 0.9], [0.3, 0.7]],
    ]
)
"""Soft gates of four images × two tokens × two experts, with `LABELS`."""
PROFILES = np.array([[0.8, 0.2], [0.8, 0.2], [0.3, 0.7], [0.2, 0.8]])
TOP_TWO_LOAD = np.array([3, 2, 2, 1])
"""Load of top-2 routing of four tokens to four experts."""
LOGITS = np.log([[6, 1], [2, 1], [1, 2], [1, 4]])
DISPATCH = np.array([[0.6, 0.125], [0.2, 0.125], [0.1, 0.25], [0.1, 0.5]])
COMBINE = np.array([[6 / 7, 1 / 7], [2 / 3, 1 / 3], [1 / 3, 2 / 3], [1 / 5, 4 / 5]])
"""A Soft MoE layer on one image of four tokens, two experts, one slot each."""


def one_hot(name: str) -> np.ndarray:
    """Profiles `(4, 2)` of one of the hard assignments."""
    return np.eye(2)[ASSIGNMENTS[name]]


def bits(nats: float) -> float:
    """The same information in bits."""
    return nats / np.log(2)


seeds = st.integers(0, 2**31)


def random_labelling(seed: int, *, images: int = 60, classes: int = 5, experts: int = 4):
    """Labels, and hard experts that half follow them, so that both chance and structure occur."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, classes, images)
    follows = generator.random(images) < generator.random()
    experts_of = np.where(follows, labels % experts, generator.integers(0, experts, images))
    return labels, experts_of


def random_profiles(seed: int, *, images: int = 30, classes: int = 4, experts: int = 3):
    """Labels, every class with two images or more, and soft profiles that may follow them."""
    generator = np.random.default_rng(seed)
    labels = generator.permutation(np.arange(images) % classes)
    scores = generator.normal(size=(images, experts))
    scores[np.arange(images), labels % experts] += 2 * generator.random()
    rows = np.exp(scores)
    return labels, rows / rows.sum(axis=1, keepdims=True)
