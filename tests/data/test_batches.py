import threading
import time

import numpy as np
import pytest
import torch
from PIL import Image
from timm.data import create_transform

from routelab.data import in_memory, open_data
from routelab.data.batches import AHEAD, read_batches
from routelab.records import Refusal, Transform
from tests.data.picture_files import SMALL


class Slow:
    """Writes an image's index after a while that is shorter for later images."""

    shape = (1, 2, 2)

    def __init__(self):
        self.read = []

    def __call__(self, index, out):
        time.sleep(0.002 * (index % 3))
        self.read.append(index)
        out[...] = index


def test_batches_come_in_exact_order_whatever_the_threads_do():
    labels = np.arange(23)
    batches = list(read_batches(Slow(), labels, np.arange(23), batch_size=4, workers=5))
    assert [len(b.labels) for b in batches] == [4, 4, 4, 4, 4, 3]
    pixels = torch.cat([b.pixels[:, 0, 0, 0] for b in batches])
    assert pixels.tolist() == list(range(23))
    assert torch.cat([b.labels for b in batches]).tolist() == list(range(23))
    assert np.concatenate([b.images for b in batches]).tolist() == list(range(23))


def test_reading_ahead_is_bounded_and_stops_with_the_reader():
    slow = Slow()
    batches = read_batches(slow, np.zeros(1000, int), np.arange(1000), batch_size=4, workers=2)
    next(batches)
    batches.close()
    assert len(slow.read) <= 4 * (AHEAD + 1)
    assert not [t for t in threading.enumerate() if t.name.startswith("routelab-decode")]


def test_start_limit_and_order():
    data = open_data("digits", SMALL, split="test")
    whole = torch.cat([b.pixels for b in data.batches(32)])
    part = next(data.batches(16, start=40, limit=5))
    assert part.images.tolist() == [40, 41, 42, 43, 44]
    assert torch.equal(part.pixels, whole[40:45])
    order = np.array([9, 3, 7])
    shuffled = next(data.batches(8, order=order))
    assert torch.equal(shuffled.pixels, whole[order])
    assert shuffled.labels.tolist() == data.labels[order].tolist()


def test_memory_holds_the_same_pixels():
    data = open_data("digits", SMALL, split="test").first(50)
    held = in_memory(data)
    for one, other in zip(data.batches(16), held.batches(16), strict=True):
        assert torch.equal(one.pixels, other.pixels)
        assert torch.equal(one.labels, other.labels)
    assert held.classes == data.classes
    assert len(held) == 50


@pytest.mark.parametrize("channels", [1, 3])
def test_pixels_are_those_of_timm(tmp_path, channels):
    noise = Image.effect_noise((50, 37), 90)
    noise.save(tmp_path / "noise.png")
    mean, std = (0.4, 0.5, 0.3)[:channels], (0.2, 0.3, 0.1)[:channels]
    transform = Transform(size=24, channels=channels, crop=0.9, mean=mean, std=std)
    ours = next(open_data(tmp_path, transform).batches(1)).pixels[0]
    theirs = create_transform(
        (channels, 24, 24), interpolation="bicubic", crop_pct=0.9, mean=mean, std=std
    )(noise.convert("L" if channels == 1 else "RGB"))
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_a_transform_needs_one_mean_a_channel():
    with pytest.raises(Refusal, match="3 means or deviations for 1 channels"):
        next(open_data("digits", Transform(size=8, channels=1)).batches(1))


def test_a_subset_is_a_data_set_of_its_own():
    data = open_data("digits", SMALL, split="all")
    part = data.subset(np.array([5, 2]))
    assert part.ids == ("digits/0005", "digits/0002")
    assert part.card.images == 2
    assert part.card.sha256 != data.card.sha256
    assert data.first(None) is data
    assert data.first(10**6) is data
