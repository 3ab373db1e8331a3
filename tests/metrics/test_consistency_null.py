import numpy as np
import pytest
from hypothesis import given, settings

from routelab import metrics
from routelab.metrics.consistency_null import labelled_sums
from tests.metrics.catalogue import LABELS, PROFILES, bits, one_hot, random_profiles, seeds

SLOW = {
    "max_share": lambda labels, rows: metrics.max_share(labels, rows).macro,
    "contrast": lambda labels, rows: metrics.agreement(labels, rows).contrast,
    "information": lambda labels, rows: metrics.table_information(
        metrics.class_sums(labels, rows, classes=labels.max() + 1)
    ),
    "eta_squared": lambda labels, rows: metrics.variance_explained(labels, rows).eta_squared,
}


@settings(max_examples=10, deadline=None)
@given(seeds)
def test_fast_and_general_tests_are_the_same(seed):
    labels, rows = random_profiles(seed)
    found = metrics.consistency_test(labels, rows, permutations=19, seed=seed)
    for name, statistic in SLOW.items():
        expected = metrics.permutation_test(
            lambda part, statistic=statistic: statistic(part, rows),
            labels,
            permutations=19,
            seed=seed,
        )
        fast = getattr(found, name)
        assert fast.null == pytest.approx(expected.null, abs=1e-12), name
        assert fast[:7] == pytest.approx(expected[:7], nan_ok=True), name


def test_soft_information_of_the_catalogue():
    found = metrics.consistency_test(LABELS, PROFILES).information
    assert (bits(found.observed), bits(found.null_mean), found.p) == pytest.approx(
        (0.2315928, 0.0784034, 1 / 3), abs=1e-6
    )
    assert found.exact


@pytest.mark.parametrize(
    ("name", "mean"),
    [("perfect", 2 / 3), ("partial", 0.75), ("independent", 2 / 3), ("collapsed", 1)],
)
def test_maximum_share_of_the_catalogue_beside_its_null(name, mean):
    found = metrics.consistency_test(LABELS, one_hot(name))
    assert found.max_share.null_mean == pytest.approx(mean)
    assert found.contrast.null_mean == pytest.approx(0, abs=1e-12)


@settings(max_examples=15, deadline=None)
@given(seeds)
def test_the_exact_null_of_the_contrast_is_centred_at_zero(seed):
    generator = np.random.default_rng(seed)
    labels, rows = np.array([0, 0, 0, 0, 1, 1, 2]), generator.dirichlet(np.ones(3), 7)
    assert metrics.consistency_test(labels, rows).contrast.null_mean == pytest.approx(0, abs=1e-12)


def test_blocks_change_nothing_but_memory():
    labels, rows = random_profiles(1, images=50)
    whole = metrics.consistency_test(labels, rows, permutations=30)
    for at_once in (1, 7, 64, 10_000):
        part = metrics.consistency_test(labels, rows, permutations=30, at_once=at_once)
        for first, second in zip(whole, part, strict=True):
            assert second.null == pytest.approx(first.null, abs=1e-12)


def test_sums_equal_a_loop():
    labels, rows = random_profiles(2)
    order = [labels, labels[::-1].copy(), np.roll(labels, 1)]
    found = np.concatenate(list(labelled_sums(iter(order), rows, classes=4, at_once=45)))
    expected = [metrics.class_sums(part, rows, classes=4) for part in order]
    assert found == pytest.approx(np.array(expected))


def test_one_seed_shuffles_all_layers_alike():
    labels, rows = random_profiles(3)
    layers = [rows, rows[:, ::-1], np.full_like(rows, 1 / 3)]
    tests = [metrics.consistency_test(labels, layer, permutations=99).contrast for layer in layers]
    null = np.stack([test.null for test in tests], axis=1)
    assert null[:, 0] == pytest.approx(null[:, 1])
    p = metrics.max_statistic_test([test.observed for test in tests], null)
    assert p[:2] == pytest.approx([tests[0].p] * 2)
    assert np.isnan(p[2]), "a layer that routes all images alike never varies"


def test_planted_class_routing_is_found_in_its_layer_only():
    generator = np.random.default_rng(0)
    labels = np.arange(120) % 4
    layers = [generator.integers(0, 4, 120) for _ in range(5)]
    layers[3] = np.where(generator.random(120) < 0.6, labels, layers[3])
    tests = [
        metrics.consistency_test(labels, metrics.hard_profile(part, experts=4), permutations=199)
        for part in layers
    ]
    for name in ("contrast", "information", "max_share", "eta_squared"):
        of_layers = [getattr(test, name) for test in tests]
        p = metrics.max_statistic_test(
            [test.observed for test in of_layers],
            np.stack([test.null for test in of_layers], axis=1),
        )
        assert np.flatnonzero(p < 0.05).tolist() == [3], name


def test_a_thousand_null_captures_give_a_fair_p():
    labels = np.arange(40) % 4
    generator = np.random.default_rng(2026)
    p = np.empty((1000, 2))
    for run in p:
        rows = generator.dirichlet(np.ones(4), size=40)
        found = metrics.consistency_test(labels, rows, permutations=199, seed=generator)
        run[:] = found.contrast.p, found.max_share.p
    assert ((p < 0.05).mean(axis=0) >= 0.035).all()
    assert ((p < 0.05).mean(axis=0) <= 0.065).all()
    assert p.mean(axis=0) == pytest.approx([0.5, 0.5], abs=0.03)


def test_one_class_has_a_maximum_share_and_nothing_else():
    found = metrics.consistency_test(np.zeros(4), PROFILES)
    assert found.max_share.observed == pytest.approx(PROFILES.mean(axis=0).max())
    for undefined in found[1:]:
        assert np.isnan(undefined.observed)
        assert undefined.reason


def test_no_image_is_undefined():
    found = metrics.consistency_test([], np.zeros((0, 3)))
    assert all(np.isnan(test.p) for test in found)


def test_duplicating_images_shrinks_p_though_nothing_was_learned():
    labels, rows = random_profiles(5)
    once = metrics.consistency_test(labels, rows, permutations=199).contrast
    thrice = metrics.consistency_test(
        labels.repeat(3), rows.repeat(3, axis=0), permutations=199
    ).contrast
    assert thrice.z > once.z


def test_wrong_input_is_refused_by_name():
    with pytest.raises(ValueError, match="profile holds NaN"):
        metrics.consistency_test(LABELS, np.where(PROFILES > 0.75, np.nan, PROFILES))
    with pytest.raises(ValueError, match="labels has 4 rows and profile has 2"):
        metrics.consistency_test(LABELS, PROFILES[:2])
