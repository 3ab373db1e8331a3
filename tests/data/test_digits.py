import numpy as np
import pytest

from routelab.data import digits, open_data
from routelab.records import Refusal
from tests.data.picture_files import SMALL


def test_the_split_is_stratified_complete_and_fixed():
    whole, train, test = (digits(SMALL, split) for split in ("all", "train", "test"))
    assert (len(whole), len(train), len(test)) == (1797, 1352, 445)
    assert not set(train.ids) & set(test.ids)
    assert set(train.ids) | set(test.ids) == set(whole.ids)
    shares = np.bincount(test.labels) / np.bincount(whole.labels)
    np.testing.assert_allclose(shares, 0.25, atol=0.01)
    assert test.ids[:3] == ("digits/0030", "digits/0031", "digits/0032")


def test_ids_and_labels_are_those_of_the_data_set():
    from sklearn.datasets import load_digits

    target = load_digits().target
    test = open_data("digits", SMALL, split="test")
    assert [target[int(name.removeprefix("digits/"))] for name in test.ids] == test.labels.tolist()
    assert test.classes == tuple("0123456789")
    assert open_data("digits", SMALL).ids == test.ids


def test_grey_levels_fill_the_range():
    pixels = next(digits(SMALL).batches(100)).pixels
    assert pixels.shape == (100, 3, 8, 8)
    np.testing.assert_allclose([pixels.min(), pixels.max()], [-2, 2], atol=1e-5)


def test_an_unknown_split_is_refused():
    with pytest.raises(Refusal, match="no split 'dev'; choose from train, test, all"):
        digits(SMALL, "dev")
