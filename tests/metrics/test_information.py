import numpy as np
import pytest
from hypothesis import given, settings
from scipy import stats

from routelab import metrics
from tests.metrics.catalogue import GATES, LABELS, PROFILES, bits, random_profiles, seeds


def token_mass(seed: int):
    """Labels `(12,)` and mass `(12, 5, 3)`, three images a class."""
    labels, _ = random_profiles(seed, images=12)
    generator = np.random.default_rng(seed)
    mass = generator.dirichlet(np.full(3, 0.5), size=(12, 5))
    return labels, mass


def test_budget_of_the_catalogue():
    found = metrics.information_budget(LABELS, GATES)
    terms = [bits(term) for term in found[:4]]
    assert terms == pytest.approx([0.2315928, 0.0048343, 0.0321054, 0.7296635], abs=1e-6)
    assert bits(found.total) == pytest.approx(0.9981959, abs=1e-6)
    assert found.reason == ""


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_terms_add_up_and_are_not_negative(seed):
    labels, mass = token_mass(seed)
    for balanced in (False, True):
        found = metrics.information_budget(labels, mass, balanced=balanced)
        assert sum(found[:4]) == pytest.approx(found.total)
        assert min(found[:4]) >= 0
        assert found.total <= metrics.budget_ceiling(3) + 1e-12


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_terms_are_mutual_informations(seed):
    labels, mass = token_mass(seed)
    found = metrics.information_budget(labels, mass)
    of_class = metrics.table_information(metrics.class_sums(labels, mass.mean(axis=1), classes=4))
    of_image = metrics.table_information(mass.mean(axis=1))
    of_token = metrics.table_information(mass.reshape(-1, 3))
    assert found.of_class == pytest.approx(of_class)
    assert found.of_image == pytest.approx(of_image - of_class)
    assert found.of_token == pytest.approx(of_token - of_image)
    assert found.residual == pytest.approx(stats.entropy(mass, axis=2).mean())


def test_balanced_classes_count_alike():
    labels, mass = np.array([0, 0, 0, 1]), GATES
    twice = np.concatenate([mass, mass[[3]], mass[[3]]])
    balanced = metrics.information_budget(labels, mass, balanced=True)
    plain = metrics.information_budget([0, 0, 0, 1, 1, 1], twice)
    assert balanced[:5] == pytest.approx(plain[:5])


def test_hard_choices_have_no_residual_and_top_k_has_ln_k():
    hard = np.eye(3)[np.random.default_rng(0).integers(0, 3, (4, 6))]
    assert metrics.information_budget(LABELS, hard).residual == pytest.approx(0)
    two = (hard + np.roll(hard, 1, axis=2)) / 2
    assert metrics.information_budget(LABELS, two).residual == pytest.approx(np.log(2))


def test_image_level_routing_is_flagged_as_tied():
    for tokens in (1, 5):
        tied = np.repeat(PROFILES[:, None], tokens, axis=1)
        found = metrics.information_budget(LABELS, tied)
        assert found.of_token == pytest.approx(0, abs=1e-12)
        assert found.reason == "tied"


def test_one_class_has_no_class_term():
    found = metrics.information_budget(np.zeros(4), GATES)
    assert np.isnan(found.of_class)
    assert found.reason == "degenerate: one class"
    assert found.of_image + found.of_token + found.residual == pytest.approx(found.total)


def test_one_image_and_one_expert():
    assert metrics.information_budget([0], GATES[:1]).of_image == pytest.approx(0)
    assert metrics.information_budget(LABELS, np.ones((4, 2, 1))).total == 0
    assert metrics.information_budget([], np.zeros((0, 2, 2))).reason == "no image"


def test_padding_and_dropped_tokens_are_left_out():
    padded = np.concatenate([GATES, np.zeros((4, 2, 2))], axis=1)
    tokens = padded.sum(axis=2) > 0
    found = metrics.information_budget(LABELS, padded, tokens=tokens)
    assert found[:5] == pytest.approx(metrics.information_budget(LABELS, GATES)[:5])
    kept = padded.copy()
    metrics.information_budget(LABELS, padded, tokens=tokens)
    assert np.array_equal(padded, kept), "the caller's array is not touched"


def test_names_of_experts_do_not_matter():
    found = metrics.information_budget(LABELS, GATES[:, :, ::-1])
    assert found[:5] == pytest.approx(metrics.information_budget(LABELS, GATES)[:5])


def test_bias_of_the_class_term_of_the_catalogue():
    assert metrics.budget_bias(classes=100, experts=8, images=1000) == pytest.approx(0.3465)
    generator = np.random.default_rng(0)
    labels, experts = np.arange(4000) % 5, generator.integers(0, 4, 4000)
    found = [
        metrics.table_information(metrics.contingency_table(generator.permutation(labels), experts))
        for _ in range(200)
    ]
    expected = metrics.budget_bias(classes=5, experts=4, images=4000)
    assert np.mean(found) == pytest.approx(expected, rel=0.1)


def test_position_information_of_the_catalogue():
    by_place = np.broadcast_to(np.eye(2), (2, 2, 2))
    assert bits(metrics.position_information(by_place)) == pytest.approx(1)
    assert metrics.table_information(metrics.image_profile(by_place)) == 0
    assert metrics.position_profile(by_place).tolist() == np.eye(2).tolist()


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_position_information_is_a_mutual_information(seed):
    _, mass = token_mass(seed)
    expected = metrics.table_information(mass.sum(axis=0))
    assert metrics.position_information(mass) == pytest.approx(expected, abs=1e-12)


def test_no_image_has_no_position_information():
    assert np.isnan(metrics.position_information(np.zeros((0, 2, 2))))


def test_disagreement_of_the_catalogue():
    mass = np.array([[[0.9, 0.1], [0.4, 0.6]], [[0.2, 0.8], [0.7, 0.3]]])
    assert metrics.top_expert(metrics.image_profile(mass))[0].tolist() == [0, 1]
    assert metrics.tying_disagreement(mass).tolist() == [0.5, 0.5]


def test_dropped_tokens_do_not_disagree():
    mass = np.array([[[0.9, 0.1], [0.0, 0.0], [0.1, 0.4]], [[0, 0], [0, 0], [0, 0]]])
    found = metrics.tying_disagreement(mass)
    assert found[0] == 0.5
    assert np.isnan(found[1])


def test_what_is_not_a_share_is_refused_by_name():
    with pytest.raises(
        ValueError, match="rows of mass must sum to 1 over experts, and one sums to 0"
    ):
        metrics.information_budget(LABELS, np.zeros((4, 2, 2)))
    with pytest.raises(ValueError, match="mass holds NaN"):
        metrics.information_budget(LABELS, np.full((4, 2, 2), np.nan))
    with pytest.raises(ValueError, match="an image has no token that counts"):
        metrics.information_budget(LABELS, GATES, tokens=np.zeros((4, 2)))
    with pytest.raises(ValueError, match="labels has 4 rows and mass has 2"):
        metrics.information_budget(LABELS, GATES[:2])


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_a_dead_expert_and_doubled_images_leave_the_budget(seed):
    labels, mass = token_mass(seed)
    once = metrics.information_budget(labels, mass)[:5]
    wider = np.concatenate([mass, np.zeros((*mass.shape[:2], 1))], axis=2)
    assert metrics.information_budget(labels, wider)[:5] == pytest.approx(once)
    twice = metrics.information_budget(labels.repeat(2), mass.repeat(2, axis=0))
    assert twice[:5] == pytest.approx(once)


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_disagreement_equals_a_loop(seed):
    _, mass = token_mass(seed)
    expected = [(rows.argmax(axis=1) != rows.mean(axis=0).argmax()).mean() for rows in mass]
    assert metrics.tying_disagreement(mass) == pytest.approx(np.array(expected))


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_order_of_tokens_matters_to_position_only(seed):
    labels, mass = token_mass(seed)
    generator = np.random.default_rng(seed)
    turned = generator.permuted(np.arange(5 * 12).reshape(12, 5) % 5, axis=1)
    moved = np.take_along_axis(mass, turned[..., None], axis=1)
    assert metrics.information_budget(labels, moved)[:5] == pytest.approx(
        metrics.information_budget(labels, mass)[:5]
    )
    everywhere = np.roll(mass, 1, axis=1)
    assert metrics.position_information(everywhere) == pytest.approx(
        metrics.position_information(mass)
    )


def test_a_tie_in_an_image_takes_the_lowest_expert_whatever_the_rounding():
    tokens = np.array([[[0.3, 0.1, 0.6], [0.2, 0.2, 0.6], [0.1, 0.3, 0.6]]])[..., :2]
    assert tokens.sum(axis=1).argmax() == 1
    for part in (tokens, tokens[:, :, ::-1]):
        own = part[0].argmax(axis=1)
        assert metrics.tying_disagreement(part)[0] == pytest.approx((own != 0).mean())


def test_rows_within_float16_of_one_are_scaled_and_others_refused():
    rough = GATES.astype(np.float16)
    found = metrics.information_budget(LABELS, rough)
    assert sum(found[:4]) == pytest.approx(found.total)
    assert found.of_class == pytest.approx(
        metrics.information_budget(LABELS, GATES).of_class, abs=1e-3
    )
    with pytest.raises(ValueError, match=r"rows of mass must sum to 1.*sums to 1\.01"):
        metrics.information_budget(LABELS, GATES * 1.01)


def test_ceiling_of_two_experts_is_one_bit():
    assert bits(metrics.budget_ceiling(2)) == pytest.approx(1)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_mass_that_is_not_finite_is_refused_by_name(wrong):
    broken = np.where(GATES > 0.85, wrong, GATES)
    with pytest.raises(ValueError, match="mass holds NaN or infinite"):
        metrics.information_budget(LABELS, broken)
    for measure in (metrics.position_information, metrics.tying_disagreement):
        with pytest.raises(ValueError, match="mass holds NaN or infinite"):
            measure(broken)


def test_unused_class_numbers_leave_the_budget():
    gap = np.where(LABELS == 1, 3, 0)
    for balanced in (False, True):
        expected = metrics.information_budget(LABELS, GATES, balanced=balanced)
        found = metrics.information_budget(gap, GATES, balanced=balanced)
        assert found[:5] == pytest.approx(expected[:5])
