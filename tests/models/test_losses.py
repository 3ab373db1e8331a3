"""Hand-worked values of the metric catalogue (L2, L8, L9) and of ST-MoE's equations."""

import pytest
import torch

from routelab.models import (
    auxiliary_losses,
    balance_loss,
    importance_loss,
    load_loss,
    router_z_loss,
)
from routelab.models.losses import squared_variation
from routelab.models.routing import SparseChoice

# The catalogue's fixture FX-G: four images of two tokens, two experts.
GATES = torch.tensor(
    [
        [[0.9, 0.1], [0.7, 0.3]],
        [[0.8, 0.2], [0.8, 0.2]],
        [[0.4, 0.6], [0.2, 0.8]],
        [[0.1, 0.9], [0.3, 0.7]],
    ]
).double()


def choice_of(probs, k=1):
    logits = probs.log()
    gate, expert = probs.topk(k, dim=-1)
    return SparseChoice(expert, gate, torch.zeros_like(expert), probs, logits, logits)


def test_importance_is_the_squared_variation_of_summed_gates():
    assert float(importance_loss(choice_of(GATES))) == pytest.approx(0.0025)
    assert float(squared_variation(torch.tensor([4.0, 0, 0, 0]))) == pytest.approx(3)


def test_balance_of_the_fixture_is_1_as_its_load_is_even():
    assert float(balance_loss(choice_of(GATES))) == pytest.approx(1.0)


def test_balance_by_hand():
    probs = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.6, 0.4], [0.3, 0.7]])
    assert probs.mean(0).tolist() == pytest.approx([0.6, 0.4])
    assert float(balance_loss(choice_of(probs[None]))) == pytest.approx(1.1)  # f = [.75, .25]


@pytest.mark.parametrize("k", [1, 2, 3])
def test_balance_at_uniform_routing_is_k(k):
    experts = torch.arange(12).view(1, 4, 3)[..., :k] % 6
    probs = torch.full((1, 6, 6), 1 / 6)
    experts = torch.stack([(torch.arange(6) + i) % 6 for i in range(k)], dim=-1)[None]
    choice = SparseChoice(experts, probs[..., :k], experts * 0, probs, probs.log(), probs.log())
    assert float(balance_loss(choice)) == pytest.approx(k)


def test_z_loss_squares_the_logarithm():
    assert float(router_z_loss(torch.zeros(1, 1, 2))) == pytest.approx(0.4804530)
    logits = torch.tensor([[[1.0, 2.0], [3.0, -1.0]]])
    expected = (torch.logsumexp(logits, -1) ** 2).mean()
    assert float(router_z_loss(logits)) == pytest.approx(float(expected))


def test_load_needs_noise():
    with pytest.raises(ValueError, match="needs router noise"):
        load_loss(choice_of(GATES), 0.0)


def test_auxiliary_losses_sum_over_layers_and_leave_out_what_has_no_weight():
    layers = [(choice_of(GATES), 0.5), (choice_of(GATES), 0.5)]
    parts = auxiliary_losses(layers, {"balance": 0.01, "router_z": 0.0})
    assert list(parts) == ["balance"]
    assert float(parts["balance"]) == pytest.approx(2.0)
    assert auxiliary_losses([], {"balance": 1.0}) == {}
