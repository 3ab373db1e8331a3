import entmax
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from routelab.records import SoftRecipe
from routelab.store.recipe import (
    combine_weights,
    dequantize,
    dispatch_weights,
    entmax15,
    quantize,
    softmax,
)


def test_entmax_of_two_scores_by_hand():
    # p = ((t/2 − τ)², (−τ)²) with both positive and sum 1; for t = (1, 0): τ = (1/2 − √(2 − 1/4))/2
    tau = (0.5 - np.sqrt(1.75)) / 2
    np.testing.assert_allclose(
        entmax15(np.array([1.0, 0.0])), [(0.5 - tau) ** 2, tau**2], atol=1e-7
    )
    assert entmax15(np.array([4.0, 0.0])).tolist() == [1.0, 0.0]


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 4), st.integers(1, 12), st.floats(0.01, 30), st.integers(0, 99))
def test_entmax_is_that_of_the_entmax_package(rows, columns, spread, seed):
    scores = np.random.default_rng(seed).normal(0, spread, (rows, columns))
    expected = entmax.entmax15(torch.from_numpy(scores), dim=-1).numpy()
    np.testing.assert_allclose(entmax15(scores), expected, atol=2e-6)


def test_entmax_of_ties_is_uniform():
    np.testing.assert_allclose(entmax15(np.zeros((2, 5))), 0.2, atol=1e-7)


@pytest.mark.parametrize("combine", ["softmax", "entmax15"])
def test_columns_and_rows_sum_to_one_and_temperatures_divide(combine):
    logits = np.random.default_rng(0).normal(0, 3, (2, 7, 5)).astype(np.float32)
    recipe = SoftRecipe(dispatch_temperature=0.5, combine_temperature=4.0, combine=combine)
    dispatch, combined = dispatch_weights(logits, recipe), combine_weights(logits, recipe)
    np.testing.assert_allclose(dispatch.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(combined.sum(axis=2), 1, atol=1e-6)
    np.testing.assert_allclose(dispatch, softmax(logits * 2, axis=1), atol=1e-7)
    assert dispatch.dtype == combined.dtype == np.float32


def test_softmax_of_huge_scores_is_finite():
    scores = np.array([[1e30, 0.0]], np.float32)
    assert softmax(scores, axis=1).tolist() == [[1.0, 0.0]]


def test_quantisation_is_within_half_a_step_of_each_image():
    logits = np.random.default_rng(0).normal(size=(3, 6, 4)).astype(np.float32)
    logits[1] *= 1000
    codes, scale = quantize(logits)
    assert codes.dtype == np.int16
    np.testing.assert_allclose(scale, np.abs(logits).max(axis=(1, 2)) / 32767, rtol=1e-6)
    error = np.abs(dequantize(codes, scale) - logits).max(axis=(1, 2))
    assert (error <= scale * 0.501).all()
    assert (np.abs(codes).max(axis=(1, 2)) == 32767).all()


def test_an_image_without_logits_stays_without():
    codes, scale = quantize(np.zeros((1, 2, 3), np.float32))
    assert scale.tolist() == [0.0]
    np.testing.assert_array_equal(dequantize(codes, scale), 0)
