from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as sklearn_metrics

from routelab import metrics
from tests.metrics.catalogue import ASSIGNMENTS, LABELS, bits, random_labelling, seeds

EXPECTED = {
    # name: information in bits, NMI, AMI, ARI, homogeneity, completeness
    "perfect": (1, 1, 1, 1, 1, 1),
    "partial": (0.3112781, 0.3437110, 0, 0, 0.3112781, 0.3836885),
    "independent": (0, 0, -0.5, -0.5, 0, 0),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_mutual_information_family_of_the_catalogue(name):
    found = metrics.label_agreement(LABELS, ASSIGNMENTS[name])
    numbers = (
        bits(found.information),
        found.nmi,
        found.ami,
        found.ari,
        found.homogeneity,
        found.completeness,
    )
    assert numbers == pytest.approx(EXPECTED[name], abs=1e-6)
    assert found.reason == ""


def test_partial_routing_is_exactly_chance():
    assert metrics.ami_score(LABELS, ASSIGNMENTS["partial"]) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(("name", "nats"), [("perfect", 0.2310491), ("partial", 0.2157616)])
def test_expected_information_of_the_catalogue(name, nats):
    table = metrics.contingency_table(LABELS, ASSIGNMENTS[name])
    assert metrics.expected_information(table) == pytest.approx(nats, abs=1e-6)


def test_a_collapsed_layer_is_nan_with_a_reason_and_the_library_value_kept():
    found = metrics.label_agreement(LABELS, ASSIGNMENTS["collapsed"])
    assert np.isnan(found.ami)
    assert np.isnan(found.information)
    assert found.reason == "degenerate: one expert is used"
    assert found.library.ami == pytest.approx(0)
    assert (found.library.homogeneity, found.library.completeness) == (0, 1)


def test_one_class_is_nan_with_a_reason():
    found = metrics.label_agreement([0, 0, 0, 0], ASSIGNMENTS["partial"])
    assert found.reason == "degenerate: one class"
    assert np.isnan(found.ami)
    assert (found.library.homogeneity, found.library.completeness) == (1, 0)


def test_no_image_is_nan_with_a_reason():
    found = metrics.label_agreement([], [])
    assert found.reason == "degenerate: no image"
    assert np.isnan(found.library).all()


@pytest.mark.parametrize(
    ("times", "ami", "ari"), [(2, 0.2303359, 0.16), (10, 0.3295444, 0.2352941)]
)
def test_repeating_images_invents_evidence(times, ami, ari):
    found = metrics.label_agreement(LABELS.repeat(times), ASSIGNMENTS["partial"].repeat(times))
    assert (found.ami, found.ari) == pytest.approx((ami, ari), abs=1e-6)


def test_groups_of_one_image_explain_everything_by_chance():
    found = metrics.label_agreement(LABELS, [0, 1, 2, 3])
    assert found.nmi == pytest.approx(2 / 3)
    assert found.ami == pytest.approx(0, abs=1e-12)


def test_nmi_inflates_with_groups_and_ami_does_not():
    generator = np.random.default_rng(0)
    labels = np.arange(100) % 10
    nmi, ami = [], []
    for groups in (2, 10, 50):
        runs = [
            metrics.label_agreement(labels, generator.integers(0, groups, 100)) for _ in range(40)
        ]
        nmi.append(np.mean([run.nmi for run in runs]))
        ami.append(np.mean([run.ami for run in runs]))
    assert nmi == pytest.approx([0.03, 0.21, 0.49], abs=0.03)
    assert ami == pytest.approx([0, 0, 0], abs=0.02)


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_scores_agree_with_scikit_learn(seed):
    labels, experts = random_labelling(seed)
    found = metrics.label_agreement(labels, experts)
    expected = {
        "information": sklearn_metrics.mutual_info_score,
        "nmi": sklearn_metrics.normalized_mutual_info_score,
        "ami": sklearn_metrics.adjusted_mutual_info_score,
        "ari": sklearn_metrics.adjusted_rand_score,
        "homogeneity": sklearn_metrics.homogeneity_score,
        "completeness": sklearn_metrics.completeness_score,
        "v_measure": sklearn_metrics.v_measure_score,
        "fowlkes_mallows": sklearn_metrics.fowlkes_mallows_score,
    }
    for name, library in expected.items():
        assert getattr(found, name) == pytest.approx(library(labels, experts), abs=1e-9), name


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_theil_u_and_the_smaller_entropy_by_scipy(seed):
    labels, experts = random_labelling(seed)
    found = metrics.label_agreement(labels, experts)
    of_class, of_expert = (stats.entropy(np.bincount(part)) for part in (labels, experts))
    assert found.homogeneity == pytest.approx(found.information / of_class)
    assert found.completeness == pytest.approx(found.information / of_expert)
    assert found.of_smaller == pytest.approx(found.information / min(of_class, of_expert))
    assert metrics.mean_margin_entropy(metrics.contingency_table(labels, experts)) == pytest.approx(
        (of_class + of_expert) / 2
    )


@settings(max_examples=25, deadline=None)
@given(seeds, st.permutations(range(4)))
def test_names_of_experts_do_not_matter(seed, order):
    labels, experts = random_labelling(seed)
    renamed = np.array(order)[experts]
    first, second = (metrics.label_agreement(labels, part) for part in (experts, renamed))
    assert second[:9] == pytest.approx(first[:9], abs=1e-9)


def test_soft_mass_has_information_and_no_ami():
    table = metrics.class_sums(LABELS, [[0.8, 0.2], [0.8, 0.2], [0.3, 0.7], [0.2, 0.8]], classes=2)
    assert bits(metrics.table_information(table)) == pytest.approx(0.2315928, abs=1e-6)
    with pytest.raises(ValueError, match=r"table holds fractions.*permutation_test"):
        metrics.expected_information(table)
    with pytest.raises(ValueError, match="table holds fractions"):
        metrics.cramers_v(table)


@pytest.mark.parametrize(
    ("name", "plain", "corrected"),
    [("perfect", 1, 1), ("partial", 0.5773503, 0), ("independent", 0, 0)],
)
def test_cramers_v_of_the_catalogue(name, plain, corrected):
    table = metrics.contingency_table(LABELS, ASSIGNMENTS[name])
    assert metrics.cramers_v(table, corrected=False) == pytest.approx(plain, abs=1e-6)
    assert metrics.cramers_v(table) == pytest.approx(corrected, abs=1e-6)


def test_cramers_v_of_a_collapsed_layer_is_nan():
    assert np.isnan(metrics.cramers_v(metrics.contingency_table(LABELS, [0, 0, 0, 0], experts=2)))


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_cramers_v_agrees_with_scipy(seed):
    table = metrics.contingency_table(*random_labelling(seed))
    used = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0].astype(int)
    expected = stats.contingency.association(used, method="cramer")
    assert metrics.cramers_v(table, corrected=False) == pytest.approx(expected)


def test_cramers_v_of_chance_is_corrected_to_about_zero():
    generator = np.random.default_rng(0)
    plain, corrected = [], []
    for _ in range(100):
        table = metrics.contingency_table(
            generator.integers(0, 10, 80), generator.integers(0, 8, 80)
        )
        plain.append(metrics.cramers_v(table, corrected=False))
        corrected.append(metrics.cramers_v(table))
    assert np.mean(plain) > 0.3
    assert np.mean(corrected) < 0.1


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_table_agrees_with_scikit_learn(seed):
    labels, experts = random_labelling(seed, images=300)
    expected = sklearn_metrics.cluster.contingency_matrix(labels, experts)
    assert np.array_equal(metrics.contingency_table(labels, experts), expected)


def test_a_table_keeps_dead_experts_and_empty_classes():
    assert metrics.contingency_table([0, 1], [0, 0], classes=3, experts=2).shape == (3, 2)


def test_prediction_and_label_of_the_catalogue():
    found = metrics.prediction_agreement(LABELS, ASSIGNMENTS["partial"], ASSIGNMENTS["partial"])
    assert found.with_prediction == pytest.approx(1)
    assert found.with_label == pytest.approx(0, abs=1e-12)
    assert found.wrong == 1
    assert np.isnan(found.wrong_with_label), "one wrong image has no agreement"


def test_wrong_images_tell_prediction_from_label():
    labels = np.arange(40) % 4
    predictions = np.where(np.arange(40) < 20, labels, (labels + 1 + np.arange(40) // 4 % 2) % 4)
    found = metrics.prediction_agreement(labels, predictions, predictions)
    assert found.wrong == 20
    assert found.wrong_with_prediction == pytest.approx(1)
    assert found.wrong_with_label < found.wrong_with_prediction


def test_experts_of_two_seeds_are_matched():
    assert metrics.matched_agreement([0, 0, 1, 1], [1, 1, 0, 0]) == 1
    assert metrics.matched_agreement([0, 0, 1, 1], [1, 1, 0, 1]) == 0.75
    assert metrics.ami_score([0, 0, 1, 1], [1, 1, 0, 0]) == pytest.approx(1)


def test_labels_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="labels has 2 rows and assignment has 3"):
        metrics.label_agreement([0, 1], [0, 1, 1])
    with pytest.raises(ValueError, match="labels has 2 rows and predictions has 1"):
        metrics.prediction_agreement([0, 1], [0], [0, 1])


def test_library_keeps_what_scikit_learn_says_of_the_collapsed_layer():
    library = metrics.label_agreement(LABELS, ASSIGNMENTS["collapsed"]).library
    assert library[:5] == pytest.approx((0, 0, 0, 0, 1), abs=1e-12)


def test_one_class_and_one_expert_is_perfect_for_the_library_and_nan_here():
    found = metrics.label_agreement([0, 0], [0, 0])
    assert np.isnan(found[:9]).all()
    assert found.library == (1,) * 7


@pytest.mark.parametrize("images", [2, 3, 7, 10, 33, 59, 200])
def test_images_that_are_groups_of_their_own_share_nothing_beyond_chance(images):
    assert metrics.ami_score(np.arange(images), np.arange(images)[::-1]) == 0


@settings(max_examples=25, deadline=None)
@given(seeds, st.integers(2, 4))
def test_repeating_images_keeps_information_and_raises_ami(seed, times):
    labels, experts = random_labelling(seed, images=20)
    once = metrics.label_agreement(labels, experts)
    more = metrics.label_agreement(labels.repeat(times), experts.repeat(times))
    assert more.information == pytest.approx(once.information, nan_ok=True)
    assert more.nmi == pytest.approx(once.nmi, nan_ok=True)
    if once.ami < 1 - 1e-9:
        assert more.ami > once.ami


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_expected_information_is_the_mean_of_shuffled_labels(seed):
    labels, experts = random_labelling(seed, images=7, classes=3, experts=3)
    tables = [
        metrics.contingency_table(drawn, experts) for drawn in metrics.every_labelling(labels)
    ]
    expected = np.mean([metrics.table_information(table) for table in tables])
    assert metrics.expected_information(tables[0]) == pytest.approx(expected, abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_cramers_v_equals_its_formula_and_does_not_mind_the_side(seed):
    table = metrics.contingency_table(*random_labelling(seed))
    used = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    (rows, columns), n = used.shape, used.sum()
    phi = stats.chi2_contingency(used, correction=False).statistic / n
    phi = max(0, phi - (rows - 1) * (columns - 1) / (n - 1))
    room = min(rows - 1 - (rows - 1) ** 2 / (n - 1), columns - 1 - (columns - 1) ** 2 / (n - 1))
    assert metrics.cramers_v(table) == pytest.approx(np.sqrt(phi / room))
    assert metrics.cramers_v(table.T) == pytest.approx(metrics.cramers_v(table))


def test_images_in_rows_of_their_own_leave_no_corrected_v():
    assert np.isnan(metrics.cramers_v(np.eye(3)))
    assert metrics.cramers_v(np.eye(3), corrected=False) == pytest.approx(1)


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_matching_equals_the_best_of_all_renamings(seed):
    first, second = random_labelling(seed, classes=4, experts=4)
    best = max((np.array(order)[second] == first).mean() for order in permutations(range(4)))
    assert metrics.matched_agreement(first, second) == pytest.approx(best)


def test_an_empty_table_says_nothing():
    for measure in (
        metrics.table_information,
        metrics.expected_information,
        metrics.mean_margin_entropy,
        metrics.cramers_v,
    ):
        assert np.isnan(measure(np.zeros((2, 2))))
    assert np.isnan(metrics.matched_agreement([], []))


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_what_is_not_a_count_or_a_name_is_refused_by_name(wrong):
    for measure in (
        metrics.table_information,
        metrics.expected_information,
        metrics.mean_margin_entropy,
        metrics.cramers_v,
    ):
        with pytest.raises(ValueError, match="table holds NaN or infinite"):
            measure([[1, wrong], [1, 1]])
    for measure in (metrics.label_agreement, metrics.ami_score, metrics.contingency_table):
        with pytest.raises(ValueError, match="assignment must be whole numbers"):
            measure([0, 1], [0, wrong])
        with pytest.raises(ValueError, match="assignment must be whole numbers"):
            measure([0, 1], [0, 0.5])
