"""The catalogue's fixtures FX-A to FX-D and FX-G, and brute force over images and pairs."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import entropy

from routelab.analysis.class_statistics import (
    class_profile,
    contrast,
    eta_squared,
    information,
    max_share,
)
from routelab.analysis.class_sums import ClassSums

LABELS = np.array([0, 0, 1, 1], dtype=np.int32)
SOFT = np.array([[0.8, 0.2], [0.8, 0.2], [0.3, 0.7], [0.2, 0.8]])
HARD = {"A": [0, 0, 1, 1], "B": [0, 0, 1, 0], "C": [0, 1, 0, 1], "D": [0, 0, 0, 0]}


def sums_of(profile, labels=LABELS, classes=2):
    return ClassSums(np.asarray(profile, dtype=float), classes).under(labels[None])


def test_soft_fixture():
    sums = sums_of(SOFT)
    np.testing.assert_allclose(class_profile(sums)[0], [[0.8, 0.2], [0.25, 0.75]])
    assert information(sums.mass)[0] / np.log(2) == pytest.approx(0.2315928, abs=1e-7)
    assert contrast(sums)[0] == pytest.approx(0.30)
    assert eta_squared(sums)[0] == pytest.approx(0.9837398, abs=1e-7)


@pytest.mark.parametrize(
    ("name", "share", "difference", "bits"),
    [("A", 1, 1, 1), ("B", 0.75, 0, 0.3112781), ("C", 0.5, -0.5, 0), ("D", 1, 0, 0)],
)
def test_hard_fixtures(name, share, difference, bits):
    sums = sums_of(np.eye(2)[HARD[name]])
    assert max_share(sums)[0] == pytest.approx(share)
    assert contrast(sums)[0] == pytest.approx(difference)
    assert information(sums.mass)[0] / np.log(2) == pytest.approx(bits, abs=1e-7)


def test_a_collapsed_layer_has_no_variance_to_explain():
    assert np.isnan(eta_squared(sums_of(np.eye(2)[HARD["D"]]))[0])


def test_an_empty_class_has_no_profile_and_a_single_image_no_share():
    sums = sums_of(SOFT[:3], np.array([0, 0, 1], dtype=np.int32), classes=3)
    assert np.isnan(class_profile(sums)[0, 2]).all()
    assert max_share(sums)[0] == pytest.approx(0.8)


def test_one_class_has_no_contrast():
    assert np.isnan(contrast(sums_of(SOFT, np.zeros(4, dtype=np.int32), classes=1))[0])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(6, 20), st.integers(2, 4), st.integers(2, 4))
def test_brute_force(seed, n, classes, experts):
    generator = np.random.default_rng(seed)
    profile = generator.dirichlet(np.ones(experts), n)
    labels = np.concatenate([np.repeat(np.arange(2), 2), generator.integers(0, classes, n - 4)])
    labels = labels.astype(np.int32)
    sums = sums_of(profile, labels, classes)
    same = [profile[i] @ profile[j] for i, j in pairs(n) if labels[i] == labels[j]]
    other = [profile[i] @ profile[j] for i, j in pairs(n) if labels[i] != labels[j]]
    assert contrast(sums)[0] == pytest.approx(np.mean(same) - np.mean(other))
    seen = [c for c in range(classes) if (labels == c).any()]
    of_class = [entropy(profile[labels == c].mean(axis=0)) * (labels == c).mean() for c in seen]
    expected = entropy(profile.mean(axis=0)) - np.sum(of_class)
    assert information(sums.mass)[0] == pytest.approx(expected, abs=1e-12)
    centre = profile.mean(axis=0)
    between = sum(
        (labels == c).sum() * ((profile[labels == c].mean(axis=0) - centre) ** 2).sum()
        for c in seen
    )
    assert eta_squared(sums)[0] == pytest.approx(between / ((profile - centre) ** 2).sum())


def pairs(n):
    return list(itertools.permutations(range(n), 2))
