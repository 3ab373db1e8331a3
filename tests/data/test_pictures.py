"""Pictures are drawn by seed, epoch and index alone."""

import random

import numpy as np
import pytest
import torch
from PIL import Image

from routelab.data import AugmentedImages, Pictures, open_data
from routelab.records import Refusal, Transform

PICTURES = Pictures(
    smallest_crop=0.3, rand_augment="rand-m9-mstd0.5-inc1", erasing=0.5, erasing_fill="rand"
)


@pytest.fixture
def images(tmp_path):
    noise = np.random.default_rng(0)
    for name in ("a/1.png", "a/2.png", "b/1.png", "b/2.png", "b/3.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.fromarray(noise.integers(0, 256, (40, 50, 3), dtype=np.uint8)).save(tmp_path / name)
    return open_data(tmp_path, Transform(size=24))


def drawn(images, *, workers, order=None, epoch=1, batch_size=2):
    source = AugmentedImages(images, PICTURES, seed=3, workers=workers).at_epoch(epoch)
    return list(source.batches(batch_size, order=order))


def test_the_same_pixels_from_any_process_in_any_batch(images):
    states = random.getstate(), np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
    here = drawn(images, workers=0)
    assert random.getstate() == states[0]
    assert (np.random.get_state()[1] == states[1]).all()  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), states[2])
    there = drawn(images, workers=1)
    assert [len(batch.labels) for batch in here] == [2, 2, 1]
    assert all(torch.equal(a.pixels, b.pixels) for a, b in zip(here, there, strict=True))
    (last,) = drawn(images, workers=0, order=[4, 1], batch_size=2)
    assert torch.equal(last.pixels[0], here[2].pixels[0])
    assert torch.equal(last.pixels[1], here[0].pixels[1])
    assert last.labels.tolist() == [1, 0]
    assert here[0].pixels.shape == (2, 3, 24, 24)
    other = drawn(images, workers=0, epoch=2)
    assert not torch.equal(other[0].pixels, here[0].pixels)


@pytest.mark.parametrize("workers", [0, 1])
def test_an_image_that_has_gone_is_named(images, tmp_path, workers):
    (tmp_path / "b/2.png").unlink()
    with pytest.raises(Refusal, match=r"^image b/2.png cannot be read"):
        drawn(images, workers=workers)
