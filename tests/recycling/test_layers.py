"""Words for blocks."""

import pytest

from routelab.records import Refusal
from routelab.recycling import resolve_layers


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("6-11", (6, 7, 8, 9, 10, 11)),
        ("8, 6,6", (6, 8)),
        ("last 2", (10, 11)),
        ("last-2", (10, 11)),
        ("every other", (1, 3, 5, 7, 9, 11)),
        ("every-other", (1, 3, 5, 7, 9, 11)),
        ("All", tuple(range(12))),
    ],
)
def test_words(text, blocks):
    assert resolve_layers(text, 12) == blocks


@pytest.mark.parametrize("text", ["", "some", "3-", "11-12", "last 13", "last 0", "-1", "9-6"])
def test_words_that_name_no_block(text):
    with pytest.raises(Refusal, match="--layers"):
        resolve_layers(text, 12)
