"""Numbers made by the public vmoe code (commit 942a78b): routers and losses must give the same."""

from pathlib import Path

import numpy as np
import pytest
import torch

from routelab.models import balance_loss, importance_loss, load_loss
from routelab.models.routers import ExpertChoiceRouter, SoftRouter, TopKRouter
from routelab.models.routing import SparseChoice
from routelab.records import ExpertChoiceRouting, SoftRouting, TopKRouting

GOLDEN = np.load(Path(__file__).parents[1] / "data" / "vmoe_golden.npz", allow_pickle=False)
CASES = range(3)


def router_with(kind, config, case):
    """A router whose gate is the identity, so that its tokens are the golden logits."""
    logits = torch.from_numpy(GOLDEN[f"c{case}_logits"])
    experts = logits.shape[1]
    router = kind(experts, experts, experts, config).eval()
    with torch.no_grad():
        router.gate.weight.copy_(torch.eye(experts))
    return router, logits[None]


def combine_of(choice):
    """Gate of each token for each expert `(N, E)`, zero where dropped: summed over the buffer."""
    kept = choice.gate.masked_fill(choice.slot < 0, 0)
    return torch.zeros_like(choice.probs).scatter_add(2, choice.expert, kept)[0].detach().numpy()


@pytest.mark.parametrize("factor", [0.5, 1.0, 1.5])
@pytest.mark.parametrize("priority", [0, 1])
@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_token_choice(case, k, priority, factor):
    config = TopKRouting(k=k, capacity_factor=factor, batch_priority=bool(priority))
    router, logits = router_with(TopKRouter, config, case)
    key = f"c{case}_tokchoice_k{k}_bpr{priority}_cf{factor}"
    choice = router(logits)
    assert router.capacity(logits.shape[1]) == GOLDEN[f"{key}_capacity"]
    assert int(choice.slot.max()) < GOLDEN[f"{key}_capacity"]
    np.testing.assert_allclose(combine_of(choice), GOLDEN[f"{key}_combine"], atol=1e-5)
    np.testing.assert_allclose(
        choice.probs[0].detach().numpy(), GOLDEN[f"c{case}_gates"], atol=1e-5
    )


@pytest.mark.parametrize("factor", [1.0, 2.0])
@pytest.mark.parametrize("case", CASES)
def test_expert_choice(case, factor):
    config = ExpertChoiceRouting(capacity_factor=factor)
    router, logits = router_with(ExpertChoiceRouter, config, case)
    key = f"c{case}_expchoice_cf{factor}"
    assert router.capacity(logits.shape[1]) == GOLDEN[f"{key}_capacity"]
    np.testing.assert_allclose(combine_of(router(logits)), GOLDEN[f"{key}_combine"], atol=1e-5)


def choice_of(case, k):
    """The routing value behind the golden losses, with the golden noise on its logits."""
    logits = torch.from_numpy(GOLDEN[f"c{case}_logits"])[None]
    noisy = logits + torch.from_numpy(GOLDEN[f"c{case}_noise"])
    probs = logits.softmax(dim=-1)
    gate, expert = probs.topk(k, dim=-1)
    return SparseChoice(expert, gate, torch.zeros_like(expert), probs, logits, noisy)


@pytest.mark.parametrize("case", CASES)
def test_losses(case):
    experts = GOLDEN[f"c{case}_logits"].shape[1]
    one, two = choice_of(case, 1), choice_of(case, 2)
    assert float(importance_loss(one)) == pytest.approx(
        float(GOLDEN[f"c{case}_importance_loss"]), abs=1e-5
    )
    assert float(load_loss(two, 1 / experts)) == pytest.approx(
        float(GOLDEN[f"c{case}_load_loss_k2"]), abs=1e-5
    )
    assert float(balance_loss(one)) == pytest.approx(
        float(GOLDEN[f"c{case}_gshard_loss"]), abs=1e-5
    )


@pytest.fixture(scope="module")
def soft():
    """Dispatch and combine `(B, N, S)` of the golden tokens."""
    mu = torch.from_numpy(GOLDEN["soft_mu"])
    router = SoftRouter(mu.shape[0], mu.shape[1], mu.shape[1] * mu.shape[2], SoftRouting()).eval()
    with torch.no_grad():
        router.mu.copy_(mu.flatten(1))
        router.scale.fill_(float(GOLDEN["soft_scale"]))
        return router(torch.from_numpy(GOLDEN["soft_x"]))


@pytest.mark.parametrize("name", ["dispatch", "combine"])
def test_soft_moe(soft, name):
    expected = GOLDEN[f"soft_{name}"]
    found = getattr(soft, name).numpy().reshape(expected.shape)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def cosines(rows):
    """Off-diagonal cosines between the rows of each image, `(B, R, R)` with NaN on the diagonal."""
    unit = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
    similarity = unit @ unit.swapaxes(-1, -2)
    return np.where(np.eye(similarity.shape[-1], dtype=bool), np.nan, similarity)


def test_soft_moe_router_metrics(soft):
    dispatch, combine = soft.dispatch.numpy(), soft.combine.numpy()
    mu = GOLDEN["soft_mu"].reshape(len(GOLDEN["soft_mu"]), -1).T[None]
    found = {
        "combine_weights_min_mean": combine.min(axis=2).mean(),
        "combine_weights_max_mean": combine.max(axis=2).mean(),
        "dispatch_weights_min_mean": dispatch.min(axis=1).mean(),
        "dispatch_weights_max_mean": dispatch.max(axis=1).mean(),
    }
    for name, rows in (
        ("combine_weights", combine),
        ("dispatch_weights", dispatch.swapaxes(1, 2)),
        ("mu", mu),
    ):
        similarity = cosines(rows)
        found[f"{name}_similarity_min"] = np.nanmin(similarity)
        found[f"{name}_similarity_max"] = np.nanmax(similarity)
        found[f"{name}_similarity_mean"] = np.nanmean(similarity)
    for name, value in found.items():
        assert value == pytest.approx(float(GOLDEN[f"soft_metric_{name}"]), abs=1e-5), name
