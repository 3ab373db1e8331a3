"""Coverage, overlap, alignment and drift by hand, and rows of a recycled model."""

import itertools

import numpy as np
import pytest
import torch

from routelab.models import build, load_checkpoint, moe_layers, save_checkpoint
from routelab.records import ExpertGroup, MoESpec, Refusal, TopKRouting
from routelab.recycling import (
    RecycleOptions,
    chance_overlap,
    channel_alignment,
    coverage,
    drift,
    jaccard_matrix,
    lineage_rows,
    mean_overlap,
    recycle,
)
from routelab.training import start_moe

SPEC = MoESpec(
    layers=(0, 2),
    router=TopKRouting(),
    groups=(ExpertGroup(name="core", experts=4, hidden_ratio=2.0),),
    shared=ExpertGroup(name="shared", experts=1, hidden_ratio=1.0),
)


def test_by_hand():
    neurons = np.array([[0, 1, 2], [1, 2, 3], [0, 1, 2]])
    assert coverage(neurons, 8) == 0.5
    expected = [[1, 0.5, 1], [0.5, 1, 0.5], [1, 0.5, 1]]
    np.testing.assert_allclose(jaccard_matrix(neurons, 8), expected)
    assert mean_overlap(neurons, 8) == pytest.approx(2 / 3)
    assert np.isnan(mean_overlap(neurons[:1], 8))
    np.testing.assert_allclose(
        channel_alignment(np.array([[0, 2, 4], [0, 3, 4], [1, 3, 5]]), np.array([0, 2, 4])),
        [1, 2 / 3, 0],
    )


def test_chance_overlap_is_the_mean_over_all_pairs():
    subsets = [set(s) for s in itertools.combinations(range(6), 3)]
    every = [len(a & b) / len(a | b) for a in subsets for b in subsets]
    assert chance_overlap(3, 6) == pytest.approx(np.mean(every))


def test_rows_of_a_recycled_model(vit):
    rows = lineage_rows(*recycle(vit, SPEC, RecycleOptions(method="random"))[:2])
    assert [(r.layer, r.group) for r in rows] == [
        ("00", "core"),
        ("00", "shared"),
        ("02", "core"),
        ("02", "shared"),
    ]
    core, shared = rows[:2]
    assert (core.experts, core.hidden, core.available, core.distinct) == (4, 48, 96, 4)
    assert core.overlap == pytest.approx(core.chance, abs=0.1)
    assert core.coverage > 0.8
    assert core.alignment == 1
    assert np.isnan(shared.overlap)
    assert shared.coverage == 0.25


def test_copies_are_one_expert(vit):
    rows = lineage_rows(*recycle(vit, SPEC, RecycleOptions(method="uniform"))[:2])
    assert rows[0].distinct == 1
    assert rows[0].overlap == 1


def test_channels_of_their_own_are_not_aligned(wide_vit, vit):
    spec = SPEC.model_copy(update={"shared": None})
    shared = RecycleOptions(method="random", width=24)
    own = shared.model_copy(update={"channel_mode": "expert"})
    assert lineage_rows(*recycle(wide_vit, spec, shared)[:2])[0].alignment == 1
    assert lineage_rows(*recycle(wide_vit, spec, own)[:2])[0].alignment < 0.5
    two = recycle(vit, spec, RecycleOptions(method="random"), experts=wide_vit)
    assert np.isnan(lineage_rows(*two[:2])[0].alignment)


def test_a_copied_model_has_no_rows(vit):
    assert lineage_rows(*start_moe(vit.model, vit.card, SPEC)) == []


def test_drift_is_relative_and_survives_a_checkpoint(vit, tmp_path):
    model, card, _ = recycle(vit, SPEC, RecycleOptions(method="random"))
    assert all((moved == 0).all() for moved in drift(model, card, vit).values())
    bank = moe_layers(model)["blocks.2.mlp"].experts.in_order()[0]
    with torch.no_grad():
        for parameter in bank.parameters():
            parameter[1] *= 1.5
    save_checkpoint(tmp_path / "trained.safetensors", model, card)
    moved = drift(*load_checkpoint(tmp_path / "trained.safetensors"), vit)
    np.testing.assert_allclose(moved["02/core"], [0, 0.5, 0, 0], atol=1e-6)
    assert (moved["00/core"] == 0).all()
    assert moved["02/shared"].shape == (1,)


def test_drift_needs_the_origin(vit, wide_vit):
    model, card, _ = recycle(vit, SPEC, RecycleOptions(method="random"))
    with pytest.raises(Refusal, match="give that checkpoint"):
        drift(model, card, wide_vit)
    with pytest.raises(Refusal, match="was not recycled"):
        drift(build(vit.card), vit.card, vit)
