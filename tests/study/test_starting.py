"""Each way to start gives the weights that it says."""

import torch

from routelab.models import load_checkpoint
from routelab.recycling import open_source, select_weights
from routelab.study import run_study
from routelab.study.starting import Origin

SELECTED = """
[arms.selected.select]
architecture = "vit_tiny_patch16_224"
arguments = { img_size = 8, patch_size = 4, embed_dim = 12, depth = 1, num_heads = 3 }

[arms.longer]
share = 2.0

[arms.copied.moe]
layers = [1]
router = { kind = "topk", k = 1 }
groups = [{ experts = 2 }]

[arms.scratch]
"""


def started(study, arm, path, seed=0):
    """Model and card that a run of an arm begins with."""
    Origin(study).start(study.arms[arm], study.config(arm, seed), path)
    return load_checkpoint(path)


def test_a_weight_selected_arm_has_the_published_rules_weights(study_of, tmp_path):
    study = study_of(("[arms.scratch]\n", SELECTED))
    model, card = started(study, "selected", tmp_path / "s.safetensors")
    source = open_source(study.source.checkpoint)
    expected, _ = select_weights(source, card)
    assert card.arguments["embed_dim"] == 12
    for name, weight in expected.state_dict().items():
        if "head" not in name:
            assert torch.equal(model.state_dict()[name], weight)


def test_a_copied_arms_experts_are_the_dense_mlp(study_of, tmp_path):
    study = study_of(("[arms.scratch]\n", SELECTED))
    model, card = started(study, "copied", tmp_path / "s.safetensors")
    dense = open_source(study.source.checkpoint).model.get_submodule("blocks.1.mlp")
    bank = model.get_submodule("blocks.1.mlp.experts.banks.routed")
    for expert in range(2):
        assert torch.equal(bank.fc1_weight[expert], dense.get_parameter("fc1.weight").T)
    assert card.source.startswith("copied from")


def test_seeds_start_with_other_classifiers_and_neurons(study_of, tmp_path):
    study = study_of()
    first, second = (
        started(study, "recycled", tmp_path / f"{seed}.safetensors", seed)[0].state_dict()
        for seed in (0, 1)
    )
    for name in ("head.weight", "lineage.layer_01_neurons_routed"):
        assert not torch.equal(first[name], second[name])


def test_a_share_of_the_budget_lets_a_baseline_go_on(study_of, tmp_path):
    study = study_of(("[arms.scratch]\n", SELECTED), ("seeds = [0, 1]", "seeds = [0]"))
    arms = {name: study.arms[name] for name in ("dense", "longer")}
    made = run_study(study.model_copy(update={"arms": arms}), tmp_path / "out", told=lambda _: None)
    assert [card.updates for card in made.arms] == [5, 10]
