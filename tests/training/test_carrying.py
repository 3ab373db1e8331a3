"""An upcycled model's optimizer goes on with the dense run's moments, copied like its weights."""

import re

import pytest
import torch

from routelab.models import load_checkpoint
from routelab.records import MoESpec, Refusal
from routelab.training import Recipe, read_config, start_moe, train_run, with_new_head
from routelab.training.carrying import carry_over
from routelab.training.parameters import optimizer_of
from routelab.training.state import newest_state
from tests.training.small_runs import MOE, START, small_config

COPIES = MOE | {"groups": [{"experts": 3, "hidden_ratio": 2.0}]}


@pytest.fixture(scope="module")
def dense(tmp_path_factory):
    """A run of a dense model; do not change it."""
    out = tmp_path_factory.mktemp("runs") / "dense"
    values = {
        "start": START,
        "data": {"source": "digits", "limit": 60, "validation": "test"},
        "recipe": {"epochs": 1, "batch_size": 8},
        "keep": {"probe": 20},
    }
    train_run(read_config(values=values), out)
    return out


def upcycled(run, spec=COPIES):
    """A MoE model of the run's last checkpoint, its optimizer, and the run's own by name."""
    model, card = load_checkpoint(run / "last.safetensors")
    moe, _ = start_moe(model, card, MoESpec.model_validate(spec))
    stored = optimizer_of(model, Recipe())
    stored.load_state_dict(newest_state(run / "states", print)["optimizer"])
    known = {name: stored.state[p] for name, p in model.named_parameters()}
    return moe, optimizer_of(moe, Recipe()), known


def test_every_copy_has_the_moments_of_what_it_is_a_copy_of(dense):
    moe, optimizer, known = upcycled(dense)
    given = carry_over(dense, moe, optimizer)
    own = {name: optimizer.state.get(p) for name, p in moe.named_parameters()}
    assert [name for name, state in own.items() if not state] == ["blocks.1.mlp.router.gate.weight"]
    assert given == len(own) - 1
    bank = "blocks.1.mlp.experts.banks.routed"
    for kind in ("exp_avg", "exp_avg_sq"):
        assert known["blocks.1.mlp.fc1.weight"][kind].abs().max() > 0
        for name in ("blocks.0.mlp.fc1.weight", "head.weight", "pos_embed"):
            assert torch.equal(own[name][kind], known[name][kind])
        for expert in range(3):
            for part in ("fc1", "fc2"):
                dense_weight = known[f"blocks.1.mlp.{part}.weight"][kind]
                assert torch.equal(own[f"{bank}.{part}_weight"][kind][expert], dense_weight.T)
    assert {float(state["step"]) for state in own.values() if state} == {8.0}


def test_a_smaller_expert_has_the_moments_of_its_neurons(dense):
    moe, optimizer, known = upcycled(dense, MOE)
    carry_over(dense, moe, optimizer)
    own = optimizer.state[
        dict(moe.named_parameters())["blocks.1.mlp.experts.banks.routed.fc1_bias"]
    ]
    assert torch.equal(own["exp_avg"][0], known["blocks.1.mlp.fc1.bias"]["exp_avg"][::2])


def test_a_classifier_of_other_classes_starts_without_moments(dense):
    model, card = load_checkpoint(dense / "last.safetensors")
    model, _ = with_new_head(model, card, ("a", "b"))
    optimizer = optimizer_of(model, Recipe())
    carry_over(dense, model, optimizer)
    fresh = [name for name, p in model.named_parameters() if not optimizer.state.get(p)]
    assert fresh == ["head.weight", "head.bias"]


def test_the_first_update_of_a_run_uses_what_was_carried_over(dense, tmp_path):
    start = {"checkpoint": str(dense / "last.safetensors")}
    values = {
        "start": start,
        "moe": COPIES,
        "data": {"source": "digits", "limit": 60, "validation": "test"},
        "recipe": {"updates": 2, "batch_size": 8, "warmup": 0.0},
        "keep": {"probe": 20},
    }
    train_run(read_config(values=values), tmp_path / "fresh")
    carried = values | {"start": start | {"optimizer": str(dense)}}
    train_run(read_config(values=carried), tmp_path / "carried")
    name = "blocks.0.mlp.fc1.weight"
    folders = [tmp_path / run / "states" for run in ("fresh", "carried")]
    first, second = (newest_state(folder, print)["model"][name] for folder in folders)
    assert not torch.equal(first, second)
    states = newest_state(tmp_path / "carried" / "states", print)["optimizer"]["state"]
    assert {float(state["step"]) for state in states.values()} == {2.0, 10.0}  # routers, the rest


def test_what_cannot_be_carried_over_is_refused(dense, tmp_path):
    moe, optimizer, _ = upcycled(dense)
    with pytest.raises(Refusal, match=re.escape(f"{tmp_path} is no run with a state")):
        carry_over(tmp_path, moe, optimizer)
    train_run(small_config(epochs=1), tmp_path / "moe")
    with pytest.raises(Refusal, match="did not train all of a dense model"):
        carry_over(tmp_path / "moe", moe, optimizer)
