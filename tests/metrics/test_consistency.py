import numpy as np
import pytest
from hypothesis import given, settings
from scipy import stats
from scipy.spatial.distance import pdist, squareform

from routelab import metrics
from tests.metrics.catalogue import LABELS, PROFILES, one_hot, random_profiles, seeds


@pytest.mark.parametrize(
    ("name", "macro"), [("perfect", 1), ("partial", 0.75), ("independent", 0.5), ("collapsed", 1)]
)
def test_max_share_of_the_catalogue(name, macro):
    found = metrics.max_share(LABELS, one_hot(name))
    assert found.macro == pytest.approx(macro)
    assert found.normalized == pytest.approx(2 * macro - 1)


def test_ties_take_the_lowest_expert_and_are_counted():
    found = metrics.max_share(LABELS, one_hot("partial"))
    assert found.modal.tolist() == [0, 0]
    assert found.tie_fraction == 0.5


def test_macro_counts_classes_and_micro_images():
    labels = np.array([0, 0, 0, 0, 1, 1])
    found = metrics.max_share(labels, np.eye(2)[[0, 0, 0, 1, 0, 1]])
    assert found.macro == pytest.approx((0.75 + 0.5) / 2)
    assert found.micro == pytest.approx((4 * 0.75 + 2 * 0.5) / 6)


def test_a_class_of_one_image_is_left_out_and_listed():
    found = metrics.max_share([0, 0, 1, 3, 3], np.eye(2)[[0, 1, 0, 1, 1]], classes=5)
    assert found.excluded.tolist() == [1, 2, 4]
    assert np.isnan(found.per_class[[1, 2, 4]]).all()
    assert found.modal.tolist() == [0, -1, -1, 1, -1]
    assert found.macro == pytest.approx(0.75)


def test_no_class_is_large_enough():
    found = metrics.max_share([0, 1], np.eye(2))
    assert np.isnan(found.macro)
    assert found.reason == "no class has 2 images"


def test_one_expert_has_no_normalised_share():
    found = metrics.max_share(LABELS, np.ones((4, 1)))
    assert found.macro == 1
    assert np.isnan(found.normalized)


@pytest.mark.parametrize(("images", "expected"), [(5, 0.3835), (10, 0.303), (50, 0.200)])
def test_max_share_of_even_experts_is_biased_as_the_catalogue_says(images, expected):
    generator = np.random.default_rng(0)
    labels = np.arange(3000).repeat(images)
    experts = generator.integers(0, 8, len(labels))
    found = metrics.max_share(labels, metrics.hard_profile(experts, experts=8))
    assert found.macro == pytest.approx(expected, abs=0.004)


@pytest.mark.parametrize(
    ("name", "within", "between"),
    [("perfect", 1, 0), ("partial", 0.5, 0.5), ("independent", 0, 0.5), ("collapsed", 1, 1)],
)
def test_agreement_of_the_catalogue(name, within, between):
    found = metrics.agreement(LABELS, one_hot(name))
    assert found[:3] == pytest.approx((within, between, within - between))
    assert found.reason == ""


def test_soft_agreement_of_the_catalogue():
    assert metrics.agreement(LABELS, PROFILES)[:3] == pytest.approx((0.65, 0.35, 0.30))


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_agreement_equals_all_pairs(seed):
    labels, rows = random_profiles(seed)
    same = labels[:, None] == labels[None, :]
    pairs = ~np.eye(len(labels), dtype=bool)
    products = rows @ rows.T
    found = metrics.agreement(labels, rows)
    assert found.within == pytest.approx(products[same & pairs].mean())
    assert found.between == pytest.approx(products[~same].mean())


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_weighted_agreement_equals_all_pairs(seed):
    labels, rows = random_profiles(seed)
    weights = np.random.default_rng(seed).integers(0, 4, len(labels)).astype(float)
    same = labels[:, None] == labels[None, :]
    pairs, products = np.outer(weights, weights), rows @ rows.T
    np.fill_diagonal(pairs, 0)
    found = metrics.agreement(labels, rows, weights=weights)
    assert found.within == pytest.approx((pairs * products)[same].sum() / pairs[same].sum())
    assert found.between == pytest.approx((pairs * products)[~same].sum() / pairs[~same].sum())


def test_an_image_of_weight_zero_is_not_there():
    found = metrics.agreement([0, 0, 1, 1], PROFILES, weights=[1, 0, 1, 0])
    assert np.isnan(found.within)
    assert found.reason == "no class has 2 images"


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ([0, 0, 0, 0], "degenerate: one class"),
        ([0, 1, 2, 3], "no class has 2 images"),
    ],
)
def test_a_missing_kind_of_pair_is_nan_with_a_reason(labels, reason):
    found = metrics.agreement(labels, PROFILES)
    assert np.isnan(found.contrast)
    assert found.reason == reason


def test_variance_of_the_catalogue():
    found = metrics.variance_explained(LABELS, PROFILES)
    assert found.eta_squared == pytest.approx(0.9837398, abs=1e-6)
    assert found.pseudo_f == pytest.approx(121)


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_variance_of_one_column_is_the_f_test_of_scipy(seed):
    labels, rows = random_profiles(seed)
    column = rows[:, :1]
    expected = stats.f_oneway(*(column[labels == c, 0] for c in range(4)))
    assert metrics.variance_explained(labels, column).pseudo_f == pytest.approx(expected.statistic)


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_variance_equals_permanova_from_distances(seed):
    labels, rows = random_profiles(seed)
    squared = squareform(pdist(rows)) ** 2
    total = squared.sum() / (2 * len(rows))
    within = sum(
        squared[np.ix_(labels == c, labels == c)].sum() / (2 * (labels == c).sum())
        for c in range(4)
    )
    found = metrics.variance_explained(labels, rows)
    assert found.eta_squared == pytest.approx(1 - within / total)
    expected = ((total - within) / 3) / (within / (len(rows) - 4))
    assert found.pseudo_f == pytest.approx(expected)


def test_variance_is_undefined_with_a_reason():
    cases = {
        "degenerate: one class": metrics.variance_explained([0, 0, 0, 0], PROFILES),
        "degenerate: profiles do not vary": metrics.variance_explained(
            LABELS, np.full((4, 3), 1 / 3)
        ),
        "no image": metrics.variance_explained([], np.zeros((0, 2))),
    }
    for reason, found in cases.items():
        assert found.reason == reason
        assert np.isnan(found[:2]).all()


def test_classes_without_variance_inside_have_an_infinite_f():
    found = metrics.variance_explained(LABELS, np.array([0.1, 0.1, 0.3, 0.3])[:, None])
    assert found.eta_squared == pytest.approx(1)
    assert found.pseudo_f == np.inf


def test_images_that_are_their_own_class_have_no_f():
    found = metrics.variance_explained([0, 1, 2, 3], PROFILES)
    assert found.eta_squared == pytest.approx(1)
    assert np.isnan(found.pseudo_f)
    assert found.reason


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_names_of_experts_do_not_matter_and_doubling_images_keeps_the_share(seed):
    labels, rows = random_profiles(seed)
    turned, twice = rows[:, ::-1], rows.repeat(2, axis=0)
    share = metrics.max_share(labels, rows)
    assert metrics.max_share(labels, turned).macro == pytest.approx(share.macro)
    assert metrics.max_share(labels.repeat(2), twice).macro == pytest.approx(share.macro)
    assert metrics.agreement(labels, turned)[:3] == pytest.approx(
        metrics.agreement(labels, rows)[:3]
    )
    explained = metrics.variance_explained(labels, rows).eta_squared
    assert metrics.variance_explained(labels, turned).eta_squared == pytest.approx(explained)
    assert metrics.variance_explained(labels.repeat(2), twice).eta_squared == pytest.approx(
        explained
    )


@pytest.mark.parametrize(
    "measure", [metrics.max_share, metrics.agreement, metrics.variance_explained]
)
def test_wrong_profiles_are_refused_by_name(measure):
    with pytest.raises(ValueError, match="profile holds NaN"):
        measure(LABELS, np.where(PROFILES > 0.75, np.nan, PROFILES))
    with pytest.raises(ValueError, match="labels has 4 rows and profile has 3"):
        measure(LABELS, PROFILES[:3])


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_max_share_equals_a_loop_over_classes(seed):
    labels, rows = random_profiles(seed, images=13, classes=5)
    labels[0] = 5
    means = {c: rows[labels == c].mean(axis=0) for c in range(6) if (labels == c).sum() >= 2}
    found = metrics.max_share(labels, rows)
    for c, mean in means.items():
        assert found.per_class[c] == pytest.approx(mean.max())
        assert found.modal[c] == mean.argmax()
    assert found.macro == pytest.approx(np.mean([mean.max() for mean in means.values()]))
    images = sum((labels == c).sum() * mean.max() for c, mean in means.items())
    assert found.micro == pytest.approx(images / sum((labels == c).sum() for c in means))
    assert found.normalized == pytest.approx((found.macro - 1 / 3) / (2 / 3))
    assert sorted({*means, *found.excluded.tolist()}) == list(range(6))


def test_a_tie_is_a_tie_in_whatever_order_images_are_summed():
    rows = np.array([[0.3, 0.1, 0.6], [0.2, 0.2, 0.6], [0.1, 0.3, 0.6]])[:, :2]
    assert rows.sum(axis=0)[0] != rows.sum(axis=0)[1]
    for part in (rows, rows[:, ::-1]):
        found = metrics.max_share([0, 0, 0], part)
        assert found.modal.tolist() == [0]
        assert found.tie_fraction == 1


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_a_dead_expert_changes_no_class_statistic(seed):
    labels, rows = random_profiles(seed)
    wider = np.column_stack([rows, np.zeros(len(rows))])
    assert metrics.max_share(labels, wider).macro == pytest.approx(
        metrics.max_share(labels, rows).macro
    )
    assert metrics.agreement(labels, wider)[:3] == pytest.approx(
        metrics.agreement(labels, rows)[:3]
    )
    assert metrics.variance_explained(labels, wider)[:2] == pytest.approx(
        metrics.variance_explained(labels, rows)[:2]
    )


def test_one_expert_agrees_everywhere_and_has_no_variance():
    assert metrics.agreement(LABELS, np.ones((4, 1)))[:3] == (1, 1, 0)
    assert np.isnan(metrics.variance_explained(LABELS, np.ones((4, 1))).eta_squared)


def test_one_image_is_undefined_with_a_reason():
    for found in (
        metrics.max_share([0], [[0.5, 0.5]]),
        metrics.agreement([0], [[0.5, 0.5]]),
        metrics.variance_explained([0], [[0.5, 0.5]]),
    ):
        assert found.reason
        assert np.isnan(found[-2] if isinstance(found, metrics.Agreement) else found[0]).all()


def test_no_image_is_undefined_with_a_reason():
    nothing = np.zeros((0, 2))
    assert metrics.max_share([], nothing).reason == "no class has 2 images"
    assert metrics.agreement([], nothing).reason == "no image"


def test_smallest_class_may_be_one_image():
    found = metrics.max_share([0, 1, 1], np.eye(2)[[0, 0, 1]], smallest_class=1)
    assert found.per_class.tolist() == [1, 0.5]
    assert found.excluded.size == 0


def test_unused_class_numbers_do_not_count():
    gap = np.where(LABELS == 1, 7, 0)
    assert metrics.agreement(gap, PROFILES) == metrics.agreement(LABELS, PROFILES)
    assert metrics.variance_explained(gap, PROFILES) == metrics.variance_explained(LABELS, PROFILES)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_refused_by_name(wrong):
    with pytest.raises(ValueError, match="weights holds NaN or infinite"):
        metrics.agreement(LABELS, PROFILES, weights=[1, 1, 1, wrong])
    with pytest.raises(ValueError, match="weights has 3 rows and profile has 4"):
        metrics.agreement(LABELS, PROFILES, weights=[1, 1, 1])
