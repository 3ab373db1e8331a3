import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from routelab import metrics


def test_mcnemar_of_the_catalogue():
    first, second = [1, 1, 1, 1, 1, 0, 1, 0], [0, 0, 0, 0, 0, 1, 1, 0]
    found = metrics.mcnemar(first, second)
    assert found.p == pytest.approx(0.21875)
    assert (found.only_first, found.only_second, found.difference) == (5, 1, 0.5)


def test_mcnemar_of_an_ablation_of_the_catalogue():
    found = metrics.mcnemar([1, 1, 1, 0], [1, 0, 1, 0])
    assert found.difference == 0.25
    assert found.p == 1


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31))
def test_mcnemar_agrees_with_scipy(seed):
    first, second = np.random.default_rng(seed).random((2, 50)) < [[0.7], [0.5]]
    only_first, only_second = (first & ~second).sum(), (second & ~first).sum()
    expected = stats.binomtest(int(only_first), int(only_first + only_second), 0.5).pvalue
    assert metrics.mcnemar(first, second).p == pytest.approx(expected)


def test_models_that_always_agree_do_not_differ():
    assert metrics.mcnemar([1, 0], [1, 0]).p == 1
    assert np.isnan(metrics.mcnemar([], []).difference)


def test_models_on_other_images_are_refused():
    with pytest.raises(ValueError, match="first has 2 rows and second has 3"):
        metrics.mcnemar([1, 0], [1, 0, 0])


def test_false_discovery_of_the_catalogue():
    found = metrics.benjamini_hochberg([0.01, 0.04, 0.03, 0.5])
    assert found == pytest.approx([0.04, 0.0533333, 0.0533333, 0.5], abs=1e-6)


@settings(max_examples=25, deadline=None)
@given(
    arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 5)), elements=st.floats(0, 1))
)
def test_false_discovery_agrees_with_the_definition(p):
    flat = p.ravel()
    ranks = stats.rankdata(flat, method="max")
    expected = [min(1, (flat[flat >= own] * p.size / ranks[flat >= own]).min()) for own in flat]
    found = metrics.benjamini_hochberg(p)
    assert found.shape == p.shape
    assert found.ravel() == pytest.approx(expected)


def test_what_is_not_a_p_is_refused():
    with pytest.raises(ValueError, match="p must lie from 0 to 1"):
        metrics.benjamini_hochberg([0.5, 1.5])
    with pytest.raises(ValueError, match="p holds NaN"):
        metrics.benjamini_hochberg([0.5, np.nan])
    assert metrics.benjamini_hochberg([]).size == 0
