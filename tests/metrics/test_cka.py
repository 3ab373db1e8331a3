import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routelab import metrics
from tests.metrics.catalogue import seeds

SQUARE = np.array([[0.0, 0], [1, 0], [0, 1], [1, 1]])


def by_definition(x, y, *, debiased):
    """CKA from Gram matrices and the centring matrix, as the papers write it."""
    n = len(x)
    k, m = x @ x.T, y @ y.T
    one = np.ones(n)

    def hsic(a, b):
        if not debiased:
            centring = np.eye(n) - 1 / n
            return np.trace(centring @ a @ centring @ b)
        a, b = a - np.diag(np.diag(a)), b - np.diag(np.diag(b))
        whole = (one @ a @ one) * (one @ b @ one) / ((n - 1) * (n - 2))
        return np.trace(a @ b) + whole - 2 / (n - 2) * (one @ a @ b @ one)

    return hsic(k, m) / np.sqrt(hsic(k, k) * hsic(m, m))


def test_worked_examples():
    angle = 0.7
    rotation = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    for debiased in (False, True):
        turned = metrics.linear_cka(SQUARE, 3 * SQUARE @ rotation + 5, debiased=debiased)
        assert turned == pytest.approx(1)
    column, xor = SQUARE[:, :1], np.array([[0.0], [1], [1], [0]])
    assert metrics.linear_cka(SQUARE, column, debiased=False) == pytest.approx(0.7071068, abs=1e-6)
    assert metrics.linear_cka(SQUARE, column) == pytest.approx(0.5, abs=1e-6)
    assert metrics.linear_cka(SQUARE, xor, debiased=False) == pytest.approx(0, abs=1e-12)


def test_independent_features_are_alike_in_the_plain_form_only():
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(20, 200)), generator.normal(size=(20, 200))
    assert metrics.linear_cka(x, y, debiased=False) == pytest.approx(0.92, abs=5e-3)
    assert metrics.linear_cka(x, y) == pytest.approx(0.1196911, abs=1e-6)


@settings(max_examples=25, deadline=None)
@given(seeds, st.integers(5, 12), st.integers(1, 15), st.integers(1, 15))
def test_both_forms_equal_their_definition(seed, images, first, second):
    generator = np.random.default_rng(seed)
    shared = generator.normal(size=(images, 1))
    x = generator.normal(size=(images, first)) + shared
    y = generator.normal(size=(images, second)) + shared
    for debiased in (False, True):
        with np.errstate(invalid="ignore"):
            expected = by_definition(x, y, debiased=debiased)
        found = metrics.linear_cka(x, y, debiased=debiased)
        if np.isfinite(expected):
            assert found == pytest.approx(expected, rel=1e-6, abs=1e-8)
        assert metrics.linear_cka(y, x, debiased=debiased) == pytest.approx(found, nan_ok=True)


def test_a_far_offset_changes_nothing():
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(2, 20, 5))
    for debiased in (False, True):
        near = metrics.linear_cka(x, y, debiased=debiased)
        assert metrics.linear_cka(x + 1e6, y, debiased=debiased) == pytest.approx(near, abs=1e-6)


@pytest.mark.parametrize("debiased", [False, True])
def test_constant_features_and_too_few_images_are_nan(debiased):
    assert np.isnan(metrics.linear_cka(np.full((7, 3), 0.1), np.eye(7), debiased=debiased))
    assert np.isnan(metrics.linear_cka(SQUARE[:1], SQUARE[:1], debiased=debiased))
    assert np.isnan(metrics.linear_cka(SQUARE[:3], SQUARE[:3])), "debiased needs four"


def test_wrong_features_are_refused_by_name():
    with pytest.raises(ValueError, match="first holds NaN"):
        metrics.linear_cka(SQUARE * np.nan, SQUARE)
    with pytest.raises(ValueError, match="first has 4 rows and second has 3"):
        metrics.linear_cka(SQUARE, SQUARE[:3])
