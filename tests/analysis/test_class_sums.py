import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routelab.analysis.class_sums import ClassSums, bootstraps, halves, permutations


def example(seed: int, n: int, classes: int, experts: int):
    generator = np.random.default_rng(seed)
    profile = generator.dirichlet(np.ones(experts), n)
    return profile, generator.integers(0, classes, n).astype(np.int32)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 5), st.integers(1, 4))
def test_sums_are_those_of_a_loop_over_images(seed, n, classes, experts):
    profile, labels = example(seed, n, classes, experts)
    weights = np.random.default_rng(seed).integers(0, 4, (3, n)).astype(float)
    sums = ClassSums(profile, classes).weighted(labels, weights)
    for draw, weight in enumerate(weights):
        for c in range(classes):
            own = labels == c
            w, rows = weight[own], profile[own]
            norm = (rows**2).sum(axis=1)
            np.testing.assert_allclose(sums.mass[draw, c], w @ rows, atol=1e-12)
            assert sums.counts[draw, c] == w.sum()
            assert sums.norms[draw, c] == pytest.approx((w * norm).sum())
            assert sums.self_pairs[draw, c] == (w**2).sum()
            assert sums.self_norms[draw, c] == pytest.approx((w**2 * norm).sum())


def test_sums_of_several_labellings_are_those_of_each():
    profile, labels = example(0, 40, 3, 4)
    shuffled = np.stack([labels, labels[::-1]])
    both = ClassSums(profile, 3).under(shuffled)
    for draw, one in enumerate(shuffled):
        alone = ClassSums(profile, 3).under(one[None])
        for together, single in zip(both, alone, strict=True):
            np.testing.assert_allclose(together[draw], single[0])


def test_permutations_keep_the_classes_and_repeat_with_the_seed():
    _, labels = example(1, 50, 4, 2)
    first = np.concatenate(list(permutations(labels, 7, seed=3)))
    again = np.concatenate(list(permutations(labels, 7, seed=3)))
    assert first.shape == (7, 50)
    np.testing.assert_array_equal(first, again)
    for row in first:
        np.testing.assert_array_equal(np.bincount(row, minlength=4), np.bincount(labels))


def test_draws_do_not_depend_on_the_blocks(monkeypatch):
    _, labels = example(1, 50, 4, 2)
    for draw in (permutations, bootstraps, halves):
        together = np.concatenate(list(draw(labels, 7, seed=3)))
        monkeypatch.setattr("routelab.analysis.class_sums.AT_ONCE", 100)
        apart = list(draw(labels, 7, seed=3))
        monkeypatch.undo()
        assert len(apart) > 1
        np.testing.assert_array_equal(together, np.concatenate(apart))


def test_a_bootstrap_draws_each_class_as_often_as_it_has_images():
    _, labels = example(2, 60, 5, 2)
    for weights in np.concatenate(list(bootstraps(labels, 5, seed=0))):
        np.testing.assert_array_equal(np.bincount(labels, weights), np.bincount(labels))


def test_a_half_has_half_of_every_class():
    _, labels = example(3, 61, 5, 2)
    size = np.bincount(labels)
    for half in np.concatenate(list(halves(labels, 5, seed=0))):
        kept = np.bincount(labels[half], minlength=5)
        assert (np.abs(2 * kept - size) <= 1).all()
