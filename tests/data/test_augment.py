import pytest
import torch
from pydantic import ValidationError

from routelab.data import Augmentation, augment

PIXELS = torch.rand(64, 3, 16, 16, generator=torch.Generator().manual_seed(1))


def draw(choice, seed=0):
    return augment(PIXELS, choice, torch.Generator().manual_seed(seed))


def test_without_a_choice_nothing_changes():
    assert draw(Augmentation()) is PIXELS


def test_the_same_generator_gives_the_same_pixels():
    choice = Augmentation(smallest_crop=0.6, shift=0.1, mirror=True)
    assert torch.equal(draw(choice), draw(choice))
    assert not torch.equal(draw(choice), draw(choice, seed=1))


def test_a_mirror_flips_about_half_of_the_images():
    seen = draw(Augmentation(mirror=True))
    same = (seen - PIXELS).flatten(1).abs().amax(1) < 1e-4
    flipped = (seen - PIXELS.flip(3)).flatten(1).abs().amax(1) < 1e-4
    assert bool((same | flipped).all())
    assert 16 < int(flipped.sum()) < 48


def test_crops_and_shifts_stay_within_the_range_of_the_image():
    seen = draw(Augmentation(smallest_crop=0.5, shift=0.2))
    assert seen.shape == PIXELS.shape
    assert float(seen.min()) >= 0
    assert float(seen.max()) <= 1


@pytest.mark.parametrize("wrong", [{"smallest_crop": 0}, {"shift": 1}, {"blur": 1}])
def test_wrong_choices_are_refused(wrong):
    with pytest.raises(ValidationError):
        Augmentation(**wrong)
