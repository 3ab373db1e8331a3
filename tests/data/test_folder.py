import numpy as np
import pytest
from PIL import Image

from routelab.data import open_data
from routelab.records import Refusal
from tests.data.picture_files import SMALL, save_picture, truncate


@pytest.fixture
def folder(tmp_path):
    for name in ("dog/b.png", "dog/a.jpg", "cat/é ü.png", "cat/deep/er.PNG", "cat/10.png"):
        save_picture(tmp_path / name)
    save_picture(tmp_path / ".hidden" / "x.png")
    (tmp_path / "dog" / "notes.txt").write_text("not an image")
    return tmp_path


def test_images_are_sorted_by_relative_path_and_the_first_folder_is_the_class(folder):
    data = open_data(folder, SMALL)
    assert data.ids == ("cat/10.png", "cat/deep/er.PNG", "cat/é ü.png", "dog/a.jpg", "dog/b.png")
    assert data.classes == ("cat", "dog")
    assert data.labels.tolist() == [0, 0, 0, 1, 1]
    assert data.card.images == len(data) == 5
    assert data.card.sha256 == open_data(str(folder), SMALL).card.sha256


def test_an_empty_class_folder_is_a_class(folder):
    (folder / "bird").mkdir()
    assert open_data(folder, SMALL).classes == ("bird", "cat", "dog")


def test_a_flat_folder_has_no_labels(folder):
    data = open_data(folder / "dog", SMALL)
    assert data.classes == ()
    assert data.labels.tolist() == [-1, -1]


def test_links_are_followed_but_not_in_circles(folder):
    (folder / "dog" / "link.png").symlink_to(folder / "cat" / "10.png")
    (folder / "owl").symlink_to(folder / "cat")
    (folder / "cat" / "circle").symlink_to(folder)
    data = open_data(folder, SMALL)
    assert "dog/link.png" in data.ids
    assert "owl/10.png" in data.ids
    assert not [name for name in data.ids if name.startswith("cat/circle")]


def test_a_split_is_a_folder_within(tmp_path):
    save_picture(tmp_path / "train" / "a" / "1.png")
    save_picture(tmp_path / "test" / "a" / "2.png")
    assert open_data(tmp_path, SMALL, split="test").ids == ("a/2.png",)
    with pytest.raises(Refusal, match="holds the splits test, train; choose one with --split"):
        open_data(tmp_path, SMALL)
    with pytest.raises(Refusal, match="no folder for split 'val'; it has test, train"):
        open_data(tmp_path, SMALL, split="val")


def test_missing_empty_and_mixed_folders_are_refused(tmp_path, folder):
    with pytest.raises(Refusal, match="does not exist"):
        open_data(tmp_path / "nowhere", SMALL)
    (tmp_path / "empty").mkdir()
    with pytest.raises(Refusal, match="holds no images"):
        open_data(tmp_path / "empty", SMALL)
    with pytest.raises(Refusal, match="is a file"):
        open_data(folder / "dog" / "a.jpg", SMALL)
    save_picture(folder / "stray.png")
    with pytest.raises(Refusal, match=r"also images beside them \(stray.png\)"):
        open_data(folder, SMALL)


def test_corrupt_files_are_named_and_refused_or_skipped(folder):
    truncate(folder / "dog" / "broken.jpg")
    (folder / "cat" / "empty.png").write_bytes(b"")
    (folder / "dog" / "gone.png").symlink_to(folder / "nowhere.png")
    with pytest.raises(Refusal) as refusal:
        open_data(folder, SMALL)
    for name in ("dog/broken.jpg", "cat/empty.png", "dog/gone.png", "--skip-corrupt"):
        assert name in str(refusal.value)
    data = open_data(folder, SMALL, on_corrupt="skip")
    assert len(data) == 5
    assert data.card.skipped == ("cat/empty.png", "dog/broken.jpg", "dog/gone.png")


def test_only_corrupt_images_are_refused_even_when_skipped(tmp_path):
    truncate(tmp_path / "a.jpg")
    with pytest.raises(Refusal, match="none of the 1 images"):
        open_data(tmp_path, SMALL, on_corrupt="skip")


def test_a_limit_counts_readable_images(folder):
    truncate(folder / "cat" / "0.jpg")
    data = open_data(folder, SMALL, on_corrupt="skip", limit=2)
    assert data.ids == ("cat/10.png", "cat/deep/er.PNG")
    assert data.card.images == 2


def test_an_image_that_breaks_during_the_run_is_named(folder):
    data = open_data(folder, SMALL)
    truncate(folder / "dog" / "a.jpg")
    with pytest.raises(Refusal, match=r"image dog/a.jpg cannot be read"):
        list(data.batches(2))


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "CMYK", "I;16"])
def test_every_mode_becomes_three_channels(tmp_path, mode):
    path = tmp_path / ("a.tif" if mode == "CMYK" else "a.png")
    if mode == "I;16":
        Image.fromarray(np.full((9, 9), 100 * 256 + 7, np.uint16)).save(path)
    else:
        save_picture(path, mode=mode)
    pixels = next(open_data(tmp_path, SMALL).batches(1)).pixels
    assert pixels.shape == (1, 3, 8, 8)
    if mode in ("L", "RGBA", "I;16"):
        np.testing.assert_allclose(pixels, (100 / 255 - 0.5) / 0.25, rtol=1e-5)
