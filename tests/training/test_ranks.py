"""Two processes train as one: the same loss curve, and statistics of the global batch."""

import socket
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import torch

from routelab.models import balance_loss, importance_loss, load_loss, router_z_loss
from routelab.models.routers import ROUTERS
from routelab.records import Refusal, TopKRouting
from routelab.training import Epoch, read_events, train_run
from routelab.training.plan import Plan
from routelab.training.ranks import ALONE, Ranks, joined
from routelab.training.recipe import Recipe
from tests.processes import run_apart
from tests.training.small_runs import small_config, weights_of

STILL = {
    "mixing": {},
    "augmentation": {},
    "drop_path": 0.0,
    "auxiliary": {"balance": 0.05, "importance": 0.05, "router_z": 0.01},
}


def still_config(*settings):
    """A run without anything that each process draws for itself."""
    arguments = "start.arguments.proj_drop_rate=0.0"
    return small_config(arguments, "moe.router.noise=0.0", "data.limit=61", *settings, **STILL)


def two_processes(work):
    """Run the work in two processes joined through gloo; each is given its rank."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    joined_by = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    codes = run_apart(
        partial(work, 0),
        partial(work, 1),
        environments=[joined_by | {"RANK": str(rank)} for rank in (0, 1)],
    )
    assert codes == [0, 0]


def test_two_processes_have_the_loss_curve_of_one(tmp_path):
    train_run(still_config(), tmp_path / "one")
    two_processes(lambda rank: train_run(still_config(), tmp_path / "two"))
    one, two = (read_events(tmp_path / name / "log.jsonl") for name in ("one", "two"))
    assert len(one) == len(two) == 18
    for a, b in zip(one, two, strict=True):
        assert b.loss == pytest.approx(a.loss, rel=1e-5)
        assert b.parts == pytest.approx(a.parts, rel=1e-5, abs=1e-7)
        assert b.accuracy == pytest.approx(a.accuracy)
        assert b.gradient_norms == pytest.approx(a.gradient_norms, rel=1e-4)
        if isinstance(a, Epoch):
            assert b.validation == pytest.approx(a.validation)
            assert b.routing["01"].load == pytest.approx(a.routing["01"].load)
    last = [weights_of(tmp_path / name)["last"] for name in ("one", "two")]
    assert all(torch.allclose(last[0][k], last[1][k], atol=1e-5) for k in last[0])


def test_two_processes_resume_to_the_same_weights(tmp_path):
    config = small_config("epochs=1", "accumulation=2")

    class Enough(Exception):
        pass

    def stop(done, total):
        if done >= 48:
            raise Enough

    def broken_off(rank):
        with pytest.raises(Enough):
            train_run(config, tmp_path / "broken", progress=stop)

    two_processes(lambda rank: train_run(config, tmp_path / "whole"))
    two_processes(broken_off)
    two_processes(lambda rank: train_run(config, tmp_path / "broken", resume=True))
    whole, broken = (weights_of(tmp_path / name)["last"] for name in ("whole", "broken"))
    assert all(torch.equal(whole[name], broken[name]) for name in whole)
    with pytest.raises(Refusal, match="begun with other processes"):
        train_run(config, tmp_path / "broken", resume=True)


@pytest.mark.slow
def test_torchrun_runs_the_command(tmp_path):
    config = tmp_path / "run.json"
    config.write_text(still_config("epochs=1").model_dump_json())
    words = ["--nproc-per-node", "2", "--standalone", "-m", "routelab", "train", str(config)]
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *words, "--out", str(tmp_path / "two")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("of the training images right") == 1
    train_run(still_config("epochs=1"), tmp_path / "one")
    one, two = (read_events(tmp_path / name / "log.jsonl") for name in ("one", "two"))
    assert [e.loss for e in two] == pytest.approx([e.loss for e in one], rel=1e-5)


def losses(router, tokens, total):
    choice = router(tokens)
    return torch.stack(
        [
            balance_loss(choice, total=total),
            importance_loss(choice, total=total),
            load_loss(choice, router.noise_std, total=total),
            router_z_loss(choice.logits, total=total),
        ]
    )


def test_losses_and_their_gradients_are_those_of_the_global_batch():
    torch.manual_seed(0)
    router = ROUTERS["topk"](6, 4, 4, TopKRouting(k=2, noise=4.0)).eval()
    torch.nn.init.normal_(router.gate.weight)
    tokens = torch.randn(5, 7, 6)
    parts = [tokens[:3], tokens[3:]]
    whole = losses(router, tokens, ALONE.total)
    gradients = [torch.autograd.grad(v, router.gate.weight, retain_graph=True)[0] for v in whole]
    apart = torch.stack([losses(router, part, ALONE.total) for part in parts]).mean(0)
    assert not torch.allclose(apart[:3], whole[:3], rtol=1e-2)
    expected = whole.detach()

    def work(rank):
        with joined("cpu") as ranks:
            compare(rank, ranks)

    def compare(rank, ranks):
        found = losses(router, parts[rank], ranks.total)
        assert torch.allclose(found, expected, rtol=1e-5)
        for value, gradient in zip(found, gradients, strict=True):
            own = torch.autograd.grad(value, router.gate.weight, retain_graph=True)[0]
            mean = ranks.total(own) / 2  # what DistributedDataParallel makes of it
            assert torch.allclose(mean, gradient, rtol=1e-4, atol=1e-6)

    two_processes(work)


@pytest.mark.parametrize(("images", "used"), [(61, 61), (57, 56), (64, 64)])
def test_processes_share_out_every_batch(images, used):
    plans = [Plan.of(Recipe(batch_size=8), images, Ranks(rank, 2)) for rank in (0, 1)]
    alone = Plan.of(Recipe(batch_size=8), images, ALONE)
    orders = [plan.order(2) for plan in plans]
    assert sorted(np.concatenate(orders)) == sorted(alone.order(2)[:used])
    first = sorted(np.concatenate([order[:4] for order in orders]))
    assert first == sorted(alone.order(2)[:8])
    assert len(set(alone.order(1)[:5]) ^ set(alone.order(2)[:5])) > 0
    assert (alone.order(3, skip=2) == alone.order(3)[16:]).all()
    with pytest.raises(Refusal, match="set batch_size to a multiple of 2"):
        Plan.of(Recipe(batch_size=9), images, Ranks(0, 2))
