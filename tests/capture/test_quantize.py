import numpy as np
import torch

from routelab.capture.quantize import STEPS, dequantize, quantize


def logits(images=5, tokens=7, slots=6, scale=4.0):
    return scale * torch.randn(
        images, tokens, slots, generator=torch.Generator().manual_seed(images)
    )


def test_the_error_is_at_most_half_a_step():
    own = logits()
    stored = quantize(own)
    half_step = (stored.scale / 2)[:, None, None]
    assert stored.integers.dtype == torch.int16
    assert ((dequantize(stored) - own).abs() <= half_step * 1.001).all()


def test_the_largest_logit_is_kept_within_float32():
    own = logits()
    largest = own.abs().flatten(1).amax(1)
    np.testing.assert_allclose(
        dequantize(quantize(own)).abs().flatten(1).amax(1), largest, rtol=1e-6
    )


def test_bytes_do_not_depend_on_the_batch():
    own = logits()
    together = quantize(own)
    for i in range(len(own)):
        alone = quantize(own[i : i + 1])
        assert torch.equal(alone.integers[0], together.integers[i])
        assert alone.scale[0] == together.scale[i]


def test_halves_are_rounded_to_even():
    own = torch.tensor([[[float(STEPS), 0.5, 1.5, -0.5, -2.5]]])
    assert quantize(own).integers.flatten().tolist() == [STEPS, 0, 2, 0, -2]


def test_an_image_of_zeros_has_scale_zero_and_comes_back_as_zeros():
    stored = quantize(torch.zeros(1, 2, 3))
    assert stored.scale.item() == 0
    assert not dequantize(stored).any()


def test_a_nan_shows_in_the_scale_of_its_image_alone():
    own = logits(3)
    own[1, 2, 3] = torch.nan
    assert torch.isfinite(quantize(own).scale).tolist() == [True, False, True]


def test_softmax_weights_change_by_less_than_two_float16_matrices_would():
    own = logits(scale=10.0).double()
    weights = own.softmax(-1)
    through_store = dequantize(quantize(own.float())).double().softmax(-1)
    assert (through_store - weights).abs().max() < (weights.half().double() - weights).abs().max()
