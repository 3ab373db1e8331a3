import numpy as np
import pytest
from hypothesis import given, settings
from scipy import stats
from scipy.spatial.distance import jensenshannon

from routelab import metrics
from tests.metrics.catalogue import random_profiles, seeds


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_entropies_agree_with_scipy(seed):
    _, rows = random_profiles(seed)
    assert metrics.shannon_entropy(rows) == pytest.approx(stats.entropy(rows, axis=1))
    assert metrics.shannon_entropy(rows, base=2) == pytest.approx(
        stats.entropy(rows, axis=1, base=2)
    )
    first, second = rows[:10], rows[10:20]
    expected = jensenshannon(first, second, axis=1, base=2) ** 2
    assert metrics.jensen_shannon_divergence(first, second) == pytest.approx(expected)
    expected = stats.entropy(first, second, axis=1, base=2)
    assert metrics.kullback_leibler_divergence(first, second) == pytest.approx(expected)


def test_zero_shares_add_nothing():
    assert metrics.shannon_entropy([1.0, 0.0]) == 0
    assert metrics.jensen_shannon_divergence([1, 0], [1, 0]) == 0
    assert metrics.kullback_leibler_divergence([1, 0], [0.5, 0.5]) == 1


def test_what_the_second_lacks_is_infinitely_far():
    assert metrics.kullback_leibler_divergence([0.5, 0.5], [1, 0]) == np.inf


def test_negative_shares_are_refused():
    with pytest.raises(ValueError, match="shares holds negative"):
        metrics.shannon_entropy([1.5, -0.5])


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_divergences_of_sparse_rows_agree_with_scipy(seed):
    _, rows = random_profiles(seed)
    kept = rows * (rows > np.median(rows, axis=1, keepdims=True))
    kept /= kept.sum(axis=1, keepdims=True)
    first, second = kept[:10], kept[10:20]
    expected = jensenshannon(first, second, axis=1, base=2) ** 2
    found = metrics.jensen_shannon_divergence(first, second)
    assert found == pytest.approx(expected, abs=1e-9)
    assert metrics.jensen_shannon_divergence(second, first) == pytest.approx(found, abs=1e-12)
    assert metrics.kullback_leibler_divergence(first, second) == pytest.approx(
        stats.entropy(first, second, axis=1, base=2)
    )


def test_columns_can_be_the_distributions():
    columns = np.array([[1, 0.5], [0, 0.5]])
    assert metrics.shannon_entropy(columns, axis=0, base=2).tolist() == [0, 1]
    assert metrics.jensen_shannon_divergence(columns, columns, axis=0).tolist() == [0, 0]
    assert metrics.kullback_leibler_divergence(columns, columns[::-1], axis=0).tolist() == [
        np.inf,
        0,
    ]


def test_a_share_too_small_to_divide_by_is_far_and_not_an_overflow():
    found = metrics.kullback_leibler_divergence([1.0, 0.0], [1e-320, 1.0])
    assert found == pytest.approx(-np.log2(1e-320))


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_distributions_that_are_not_finite_are_refused_by_name(wrong):
    with pytest.raises(ValueError, match="shares holds NaN or infinite"):
        metrics.shannon_entropy([wrong, 0.5])
    for divergence in (metrics.jensen_shannon_divergence, metrics.kullback_leibler_divergence):
        with pytest.raises(ValueError, match="p holds NaN or infinite"):
            divergence([wrong, 0.5], [0.5, 0.5])
        with pytest.raises(ValueError, match="q holds NaN or infinite"):
            divergence([0.5, 0.5], [wrong, 0.5])
