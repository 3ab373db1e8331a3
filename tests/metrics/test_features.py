"""F1–F4, F6 and CC7: groups of features, and what a linear probe reads from them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import silhouette_score

from routelab import metrics

LINE = np.array([[0.0], [1], [10], [11]])
SEEDS = st.integers(0, 2**32 - 1)


def test_silhouette_of_the_worked_example():
    value = metrics.silhouette(LINE, [0, 0, 1, 1], metric="euclidean")
    assert value == pytest.approx(0.8997494, abs=1e-6)
    samples = [0.5, 0.5, -0.8947368, 0]  # an image alone counts 0, not 1
    alone = metrics.silhouette(LINE, [0, 0, 0, 1], metric="euclidean")
    assert alone == pytest.approx(np.mean(samples), abs=1e-6)


def test_silhouette_of_the_fixture_profiles():
    profile = [[0.8, 0.2], [0.8, 0.2], [0.3, 0.7], [0.2, 0.8]]
    value = metrics.silhouette(profile, [0, 0, 1, 1], metric="euclidean")
    assert value == pytest.approx(0.9083333, abs=1e-6)


@pytest.mark.parametrize("labels", [[0, 0, 0, 0], [0, 1, 2, 3]])
def test_one_group_or_all_alone_have_no_silhouette(labels):
    assert np.isnan(metrics.silhouette(LINE, labels))


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_silhouette_agrees_with_scikit_learn(seed):
    generator = np.random.default_rng(seed)
    rows, labels = generator.normal(size=(12, 3)), np.arange(12) % 3
    expected = silhouette_score(rows, labels, metric="cosine")
    assert metrics.silhouette(rows, labels) == pytest.approx(expected)


def test_neighbours_of_the_worked_example():
    one = metrics.neighbour_purity(LINE, [0, 0, 1, 1], k=1, metric="euclidean")
    three = metrics.neighbour_purity(LINE, [0, 0, 1, 1], k=3, metric="euclidean")
    assert one.purity == 1
    assert three.purity == pytest.approx(1 / 3)
    assert one.chance == three.chance == pytest.approx(1 / 3)
    assert (one.cap, three.cap) == pytest.approx((1, 1 / 3))


def test_too_few_images_have_no_neighbours():
    assert np.isnan(metrics.neighbour_purity(LINE, [0, 0, 1, 1], k=4)).all()


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_neighbours_agree_with_brute_force(seed):
    generator = np.random.default_rng(seed)
    rows, labels = generator.normal(size=(14, 3)), generator.integers(0, 3, 14)
    same = []
    for i in range(14):
        others = [j for j in range(14) if j != i]
        others.sort(key=lambda j: ((rows[i] - rows[j]) ** 2).sum())
        same.append(np.mean([labels[j] == labels[i] for j in others[:4]]))
    found = metrics.neighbour_purity(rows, labels, k=4, metric="euclidean")
    assert found.purity == pytest.approx(np.mean(same))


def test_an_image_is_never_its_own_neighbour_even_among_copies():
    copies = np.tile([1.0, 2.0], (6, 1))
    found = metrics.neighbour_purity(copies, [0, 1, 2, 3, 4, 5], k=2)
    assert found.purity == 0


def test_cluster_agreement_of_the_worked_example():
    found = metrics.cluster_agreement([0, 0, 1, 2], [0, 0, 1, 1], [0, 0, 1, 1])
    assert found == pytest.approx((0.5714286, 0.5714286), abs=1e-6)


def test_clusters_find_groups_that_are_there():
    rows = np.repeat([[0.0, 0], [9, 0], [0, 9]], 10, axis=0)
    rows = rows + np.random.default_rng(0).normal(size=rows.shape) * 0.1
    clusters = metrics.feature_clusters(rows, 3)
    assert metrics.ami_score(np.repeat([0, 1, 2], 10), clusters) == pytest.approx(1)
    with pytest.raises(ValueError, match="clusters must be from 1 to 30"):
        metrics.feature_clusters(rows, 31)


SQUARE = np.array([[0.0, 0], [1, 0], [0, 1], [1, 1]])


def test_cka_of_the_worked_examples():
    angle = 0.7
    rotation = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    for debiased in (False, True):
        turned = metrics.linear_cka(SQUARE, 3 * SQUARE @ rotation + 5, debiased=debiased)
        assert turned == pytest.approx(1)
    column, xor = SQUARE[:, :1], np.array([[0.0], [1], [1], [0]])
    assert metrics.linear_cka(SQUARE, column, debiased=False) == pytest.approx(0.7071068, abs=1e-6)
    assert metrics.linear_cka(SQUARE, xor, debiased=False) == pytest.approx(0, abs=1e-12)


def test_debiased_cka_of_independent_features_is_near_0_where_the_plain_form_is_not():
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(2, 20, 200))
    assert metrics.linear_cka(x, y, debiased=False) > 0.85
    assert abs(metrics.linear_cka(x, y)) < 0.25
    assert np.isnan(metrics.linear_cka(x[:3], y[:3]))


def grouped(classes=3, each=20, width=6, spread=0.3, seed=0):
    generator = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), each)
    centres = generator.normal(size=(classes, width))
    return centres[labels] + spread * generator.normal(size=(len(labels), width)), labels


def test_a_probe_reads_what_is_there_and_not_what_is_not():
    features, labels = grouped()
    assert metrics.linear_probe(features, labels).accuracy > 0.95
    control = metrics.linear_probe(features, labels, shuffled=True)
    assert control.accuracy < 0.6
    noise = np.random.default_rng(1).normal(size=features.shape)
    assert metrics.linear_probe(noise, labels).accuracy < 0.6


def test_the_same_seed_gives_the_same_probe():
    features, labels = grouped(spread=1.5)
    first, second = (metrics.linear_probe(features, labels, seed=4) for _ in range(2))
    np.testing.assert_array_equal(first.accuracies, second.accuracies)
    assert len(first.accuracies) == 3


def test_a_probe_needs_two_classes_of_four():
    probe = metrics.linear_probe(np.ones((6, 2)), [0, 0, 0, 0, 1, 1])
    assert np.isnan(probe.accuracy)
    assert probe.classes == 1


def test_efficiency_of_the_worked_example_and_of_features_that_tell_nothing():
    assert metrics.probe_efficiency(0.6, 0.9, classes=10) == pytest.approx(0.625)
    dull = metrics.Probe(np.array([0.12]), 0.12, 0.02, 10)
    assert np.isnan(metrics.probe_efficiency(0.3, dull, classes=10))


def test_a_random_projection_of_full_width_keeps_what_a_probe_reads():
    features, labels = grouped()
    seen = metrics.random_projection(features, 6)
    assert seen.shape == features.shape
    assert metrics.linear_probe(seen, labels).accuracy > 0.9


def test_features_that_are_not_finite_are_refused_by_name():
    with pytest.raises(ValueError, match="features holds NaN"):
        metrics.silhouette([[np.nan], [1.0]], [0, 1])
