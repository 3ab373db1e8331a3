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
