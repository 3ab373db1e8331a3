import numpy as np
import pytest
from hypothesis import given, settings
from scipy import stats

from routelab import metrics
from tests.metrics.catalogue import COMBINE, GATES, random_profiles, seeds


def test_entropies_of_the_catalogue():
    found = metrics.gate_entropies(GATES)
    assert found == pytest.approx((0.5057642, 0.6918967, 0.1861325), abs=1e-6)


def test_an_undecided_balanced_router_is_seen_here_only():
    undecided = np.full((6, 4), 0.25)
    assert metrics.cv_squared(undecided.sum(axis=0)) == 0
    assert metrics.gate_entropies(undecided) == pytest.approx((np.log(4), np.log(4), 0))


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_entropies_agree_with_scipy(seed):
    _, rows = random_profiles(seed)
    found = metrics.gate_entropies(rows)
    assert found.local == pytest.approx(stats.entropy(rows, axis=1).mean())
    assert found.marginal == pytest.approx(stats.entropy(rows.mean(axis=0)))
    assert 0 <= found.information <= np.log(rows.shape[1])


def test_hardness_of_the_catalogue():
    assert metrics.hardness(COMBINE).largest == pytest.approx(0.7476190, abs=1e-6)
    assert metrics.hardness(GATES) == pytest.approx((0.775, 0.55))


def test_hardness_of_one_expert_has_no_margin():
    found = metrics.hardness(np.ones((3, 1)))
    assert found.largest == 1
    assert np.isnan(found.margin)
    assert np.isnan(metrics.hardness(np.zeros((0, 2))).largest)


def test_balance_of_the_catalogue():
    assert metrics.balance_value([0.75, 0.25], [0.6, 0.4]) == pytest.approx(1.1)
    tokens = GATES.reshape(-1, 2)
    load = np.bincount(tokens.argmax(axis=1))
    assert metrics.balance_value(load, tokens.mean(axis=0)) == pytest.approx(1)


def test_balance_of_even_top_k_is_k():
    assert metrics.balance_value(np.ones(4), np.full(4, 0.25), k=2) == pytest.approx(2)


def test_z_value_of_the_catalogue():
    assert metrics.router_z_value([[0, 0]]) == pytest.approx(0.4804530, abs=1e-6)
    assert metrics.router_z_value([[1000.0, 0.0]]) == pytest.approx(1e6)


def test_nothing_gives_nan():
    assert np.isnan(metrics.gate_entropies(np.zeros((0, 3)))).all()
    assert np.isnan(metrics.router_z_value(np.zeros((0, 3))))


def test_what_is_not_a_gate_is_refused_by_name():
    with pytest.raises(
        ValueError, match="rows of gates must sum to 1 over experts, and one sums to 0"
    ):
        metrics.gate_entropies([[0.5, 0.5], [0, 0]])
    with pytest.raises(ValueError, match="logits holds NaN"):
        metrics.router_z_value([np.nan, 1])
    with pytest.raises(ValueError, match="load has 2 rows and gates has 3"):
        metrics.balance_value([1, 1], [0.2, 0.3, 0.5])


def test_float16_rounding_is_no_reason_to_refuse():
    rough = GATES.astype(np.float16)
    assert metrics.gate_entropies(rough) == pytest.approx(metrics.gate_entropies(GATES), abs=1e-3)
