import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from routelab.figures.pixels import data_uri, png

SHAPES = st.tuples(st.integers(1, 9), st.integers(1, 9), st.sampled_from([1, 3, 4]))


@settings(max_examples=25, deadline=None)
@given(SHAPES.flatmap(lambda shape: arrays(np.uint8, shape)))
def test_another_library_reads_the_same_pixels(pixels):
    with Image.open(io.BytesIO(png(pixels))) as image:
        read = np.asarray(image).reshape(pixels.shape)
    np.testing.assert_array_equal(read, pixels)


def test_a_data_uri_holds_the_png():
    assert data_uri(np.zeros((2, 2), dtype=np.uint8)).startswith("data:image/png;base64,iVBOR")


@pytest.mark.parametrize("pixels", [np.zeros((2, 2, 2), np.uint8), np.zeros((2, 2, 3))])
def test_other_pixels_are_refused(pixels):
    with pytest.raises(ValueError, match="must be uint8"):
        png(pixels)
