"""F1–F4 and CC7: groups of features, and what a linear probe reads from them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import silhouette_score
from sklearn.model_selection import StratifiedShuffleSplit, cross_val_score

from routelab import metrics

LINE = np.array([[0.0], [1], [10], [11]])
SEEDS = st.integers(0, 2**32 - 1)


def test_silhouette_of_the_worked_example():
    value = metrics.silhouette(LINE, [0, 0, 1, 1], metric="euclidean")
    assert value == pytest.approx(0.8997494, abs=1e-6)
    each = [0.9047619, 0.8947368, 0.8947368, 0.9047619]
    assert value == pytest.approx(np.mean(each), abs=1e-6)
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
    found = metrics.neighbour_purity(LINE, [0, 0, 1, 1], k=4, metric="euclidean")
    assert np.isnan(found[:3]).all()
    with pytest.raises(ValueError, match="k must be at least 1"):
        metrics.neighbour_purity(LINE, [0, 0, 1, 1], k=0)


def test_images_without_direction_are_left_out_and_counted():
    rows, labels = np.array([[0.0, 0], [1, 0], [2, 0.1], [0, 1], [0.1, 2]]), [1, 0, 0, 1, 1]
    found = metrics.neighbour_purity(rows, labels, k=1)
    assert found == (1, pytest.approx(1 / 3), 1, 1)
    expected = silhouette_score(rows[1:], labels[1:], metric="cosine")
    assert metrics.silhouette(rows, labels) == pytest.approx(expected)
    assert metrics.neighbour_purity(rows, labels, k=1, metric="euclidean").excluded == 0


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_ties_go_to_the_lower_index(metric):
    copies = np.tile([1.0, 2.0], (60, 1))
    labels = np.r_[np.zeros(3, dtype=int), np.arange(1, 58)]
    assert metrics.neighbour_purity(copies, labels, k=2, metric=metric).purity == 3 / 60


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.integers(1, 5), st.integers(1, 40))
def test_cosine_neighbours_among_copies_agree_with_a_stable_sort_in_any_chunks(seed, k, cells):
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(5, 3))[generator.integers(0, 5, 12)]
    rows *= generator.choice([0.5, 1, 4], (12, 1))
    labels = generator.integers(0, 3, 12)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    same = []
    for i in range(12):
        others = [j for j in range(12) if j != i]
        others.sort(key=lambda j, i=i: round(1 - float(unit[i] @ unit[j]), 10))
        same.append(np.mean([labels[j] == labels[i] for j in others[:k]]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("routelab.metrics.clusters.CELLS_AT_ONCE", cells)
        found = metrics.neighbour_purity(rows, labels, k=k)
    assert found.purity == pytest.approx(np.mean(same))


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
    assert found == pytest.approx((0.5714286, 0.5714286, 1), abs=1e-6)
    whole = metrics.label_agreement([0, 0, 1, 1], [0, 0, 1, 2])
    assert whole.nmi == pytest.approx(0.8)
    assert whole.ari == pytest.approx(0.5714286, abs=1e-6)
    assert (whole.homogeneity, whole.completeness) == pytest.approx((1, 2 / 3))


def test_images_that_coincide_make_fewer_groups_without_a_warning():
    assert metrics.feature_clusters(np.ones((6, 2)), 3).tolist() == [0] * 6


def test_clusters_find_groups_that_are_there():
    rows = np.repeat([[0.0, 0], [9, 0], [0, 9]], 10, axis=0)
    rows = rows + np.random.default_rng(0).normal(size=rows.shape) * 0.1
    clusters = metrics.feature_clusters(rows, 3)
    assert metrics.ami_score(np.repeat([0, 1, 2], 10), clusters) == pytest.approx(1)
    with pytest.raises(ValueError, match="clusters must be from 1 to 30"):
        metrics.feature_clusters(rows, 31)


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
    assert probe.excluded == (1,)
    assert np.isnan(metrics.linear_probe(np.zeros((0, 2)), []).accuracy)


def test_a_class_of_few_images_is_left_out_and_listed():
    features, labels = grouped()
    few = np.r_[labels, [5, 5, 7]]
    probe = metrics.linear_probe(np.vstack([features, features[:3]]), few)
    assert probe.classes == 3
    assert probe.excluded == (5, 7)
    np.testing.assert_array_equal(
        probe.accuracies, metrics.linear_probe(features, labels).accuracies
    )


def test_a_probe_that_sees_nothing_is_at_the_balanced_half_whatever_the_counts():
    labels = np.repeat([0, 1], [15, 5])
    probe = metrics.linear_probe(np.ones((20, 3)), labels)
    assert probe.accuracies.tolist() == [0.5] * 3


def test_a_probe_equals_a_pipeline_written_out():
    features, labels = grouped(spread=1.5)
    splits = StratifiedShuffleSplit(3, test_size=18, random_state=2)
    expected = []
    for train, test in splits.split(features, labels):
        mean, scale = features[train].mean(axis=0), features[train].std(axis=0)
        scaled = (features - mean) / scale
        strength = max(
            (0.01, 0.1, 1.0),
            key=lambda c, scaled=scaled, train=train: cross_val_score(
                LogisticRegression(C=c, tol=1e-3),
                scaled[train],
                labels[train],
                cv=2,
                scoring="balanced_accuracy",
            ).mean(),
        )
        model = LogisticRegression(C=strength, tol=1e-3).fit(scaled[train], labels[train])
        recall = [
            (model.predict(scaled[test])[labels[test] == c] == c).mean() for c in np.unique(labels)
        ]
        expected.append(np.mean(recall))
    found = metrics.linear_probe(features, labels, seed=2)
    np.testing.assert_allclose(found.accuracies, expected)


@settings(max_examples=10, deadline=None)
@given(SEEDS)
def test_a_probe_warns_of_nothing_however_uneven_the_classes(seed):
    generator = np.random.default_rng(seed)
    labels = np.repeat(np.arange(4), generator.integers(1, 20, 4))
    probe = metrics.linear_probe(generator.normal(size=(len(labels), 2)), labels, splits=1)
    assert probe.classes + len(probe.excluded) == 4


def test_wrong_splits_are_refused():
    for options in ({"splits": 0}, {"held_out": 1.0}):
        with pytest.raises(ValueError, match="splits must be 1 or more"):
            metrics.linear_probe(*grouped(), **options)


def test_efficiency_of_the_worked_example_and_of_features_that_tell_nothing():
    assert metrics.probe_efficiency(0.6, 0.9, classes=10) == pytest.approx(0.625)
    dull = metrics.Probe(np.array([0.12]), 0.12, 0.02, 10)
    assert np.isnan(metrics.probe_efficiency(0.3, dull, classes=10))
    barely = metrics.Probe(np.array([0.15]), 0.15, 0.02, 10)
    assert metrics.probe_efficiency(0.125, barely, classes=10) == pytest.approx(0.5)
    clear = metrics.Probe(np.array([0.9]), 0.9, 0.02, 10)
    routing = metrics.Probe(np.array([0.6]), 0.6, 0.02, 10)
    assert metrics.probe_efficiency(routing, clear, classes=10) == pytest.approx(0.625)
    assert np.isnan(metrics.probe_efficiency(0.6, float("nan"), classes=10))


def test_a_random_projection_of_full_width_keeps_what_a_probe_reads():
    features, labels = grouped()
    seen = metrics.random_projection(features, 6)
    assert seen.shape == features.shape
    assert metrics.linear_probe(seen, labels).accuracy > 0.9


def test_features_that_are_not_finite_are_refused_by_name():
    with pytest.raises(ValueError, match="features holds NaN"):
        metrics.silhouette([[np.nan], [1.0]], [0, 1])
    for measure in (metrics.neighbour_purity, metrics.linear_probe):
        with pytest.raises(ValueError, match="features holds NaN"):
            measure([[np.inf], [1.0]], [0, 1])
    with pytest.raises(ValueError, match="features holds NaN"):
        metrics.feature_clusters([[np.nan]], 1)
    with pytest.raises(ValueError, match="features holds NaN"):
        metrics.random_projection([[np.nan]], 1)
    with pytest.raises(ValueError, match="features has 4 rows and labels has 3"):
        metrics.silhouette(LINE, [0, 0, 1])
    with pytest.raises(ValueError, match="metric must be cosine or euclidean"):
        metrics.neighbour_purity(LINE, [0, 0, 1, 1], k=1, metric="cityblock")
