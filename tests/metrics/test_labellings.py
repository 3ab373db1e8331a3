from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routelab import metrics
from routelab.metrics.labellings import labellings

small_labels = st.lists(st.integers(0, 3), min_size=0, max_size=7)


@settings(max_examples=40, deadline=None)
@given(small_labels)
def test_every_labelling_is_found_once(labels):
    expected = set(permutations(labels))
    found = [tuple(row.tolist()) for row in metrics.every_labelling(labels)]
    assert len(found) == metrics.labelling_count(labels) == len(expected)
    assert set(found) == expected


@settings(max_examples=25, deadline=None)
@given(small_labels, st.integers(0, 99))
def test_strata_keep_their_labels(labels, seed):
    strata = np.random.default_rng(seed).integers(0, 2, len(labels))
    found = {tuple(row.tolist()) for row in metrics.every_labelling(labels, strata=strata)}
    assert len(found) == metrics.labelling_count(labels, strata=strata)
    for row in [*found, *map(tuple, metrics.shuffles(labels, 5, seed=seed, strata=strata))]:
        for stratum in (0, 1):
            inside = strata == stratum
            assert sorted(np.array(row, dtype=int)[inside]) == sorted(
                np.array(labels, dtype=int)[inside]
            )


def test_counting_is_quick_where_enumeration_is_hopeless():
    assert metrics.labelling_count(np.arange(100_000) % 1000) == 100_000
    assert metrics.labelling_count(np.zeros(1_000_000)) == 1
    assert metrics.labelling_count(np.arange(5000) == 7) == 5000


def test_large_classes_do_not_slow_enumeration():
    found = list(metrics.every_labelling(np.arange(2000) == 7))
    assert len(found) == 2000
    assert len(np.unique([row.argmax() for row in found])) == 2000


def test_few_labellings_are_enumerated_and_many_drawn():
    few = labellings([0, 0, 1, 1], permutations=50, seed=0)
    assert few.exact
    assert len(list(few.rows)) == 6
    many = labellings(np.arange(40) % 4, permutations=50, seed=0)
    assert not many.exact
    assert len(list(many.rows)) == 50


def test_the_same_seed_shuffles_alike():
    labels = np.arange(30) % 3
    first, second, other = (
        np.array(list(metrics.shuffles(labels, 3, seed=seed))) for seed in (1, 1, 2)
    )
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)
    assert np.array_equal(np.sort(first, axis=1), np.sort(np.tile(labels, (3, 1)), axis=1))


def test_a_generator_serves_as_a_seed():
    generator = np.random.default_rng(1)
    first = np.array(list(metrics.shuffles(np.arange(9), 2, seed=generator)))
    assert np.array_equal(first, list(metrics.shuffles(np.arange(9), 2, seed=1)))


def test_smallest_p_of_four_and_of_many_images():
    assert metrics.smallest_p([0, 0, 1, 1], 999) == pytest.approx(1 / 6)
    assert metrics.smallest_p(np.arange(40) % 4, 999) == pytest.approx(0.001)


def test_strata_of_another_length_are_refused():
    with pytest.raises(ValueError, match="labels has 3 rows and strata has 2"):
        metrics.labelling_count([0, 1, 1], strata=[0, 1])
