import sys

import numpy as np
import pytest
from sklearn.decomposition import PCA

from routelab import projection
from routelab.records import Refusal


@pytest.fixture(scope="module")
def features():
    centres = np.random.default_rng(0).normal(size=(3, 8)) * 4
    return np.repeat(centres, 12, axis=0) + np.random.default_rng(1).normal(size=(36, 8))


@pytest.mark.parametrize("method", ["pca", "tsne"])
def test_the_same_seed_gives_the_same_map_and_neighbours_stay_neighbours(features, method):
    first, second = (projection.project(features, method=method, seed=3) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert first.shape == (36, 2)
    assert projection.trustworthiness(features, first) > 0.8


@pytest.mark.slow
def test_umap_is_deterministic_too(features):
    pytest.importorskip("umap")
    first, second = (projection.project(features, method="umap", seed=3) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_principal_components_are_scikit_learns_up_to_sign(features):
    expected = np.abs(PCA(2).fit_transform(features))
    np.testing.assert_allclose(np.abs(projection.project(features)), expected, atol=1e-9)


def test_one_feature_still_has_two_coordinates():
    assert projection.project(np.arange(5.0)[:, None]).shape == (5, 2)


@pytest.mark.parametrize("method", ["pca", "tsne"])
def test_images_that_coincide_fall_on_one_point(method):
    for rows in (np.ones((9, 2)), np.full((9, 3), 0.1)):
        assert not projection.project(rows, method=method).any()


def test_a_few_images_that_coincide_are_projected_with_the_others():
    rows = np.repeat([[1.0, 0.0], [0.0, 1.0]], 5, axis=0)
    assert np.isfinite(projection.project(rows, method="tsne")).all()


def test_trustworthiness_of_the_worked_example():
    line, scrambled = np.arange(6.0)[:, None], np.array([[1.0], [3], [5], [0], [2], [4]])
    assert projection.trustworthiness(line, line, neighbours=2) == 1
    found = projection.trustworthiness(line, scrambled, neighbours=2)
    assert found == pytest.approx(0.2666667, abs=1e-6)
    for wrong in (line[:5], line * np.nan):
        with pytest.raises(Refusal, match="finite numbers of the same images"):
            projection.trustworthiness(line, wrong, neighbours=2)


def test_trustworthiness_is_1_for_the_features_themselves(features):
    assert projection.trustworthiness(features, features) == 1
    assert np.isnan(projection.trustworthiness(features[:6], features[:6]))


@pytest.mark.parametrize(
    ("rows", "method", "says"),
    [
        (np.ones((3, 2)), "pca", "at least 4 images"),
        (np.full((9, 2), np.nan), "pca", "finite numbers"),
        (np.ones((9, 2)), "mds", "take one of pca, tsne, umap"),
    ],
)
def test_what_cannot_be_projected_is_refused(rows, method, says):
    with pytest.raises(Refusal, match=says):
        projection.project(rows, method=method)


def test_umap_where_it_is_not_installed_is_refused_with_the_way_out(features, monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", None)
    with pytest.raises(Refusal, match=r"routelab\[projection\]"):
        projection.project(features, method="umap")
