"""A study is checked whole before any arm runs, and a fault is named."""

import re

import pytest

from routelab.records import Refusal


def test_arms_change_what_they_share_and_seeds_change_the_rest(study_of):
    study = study_of(
        ("[arms.scratch.moe]", "[arms.scratch.run.recipe]\nbatch_size = 8\n[arms.scratch.moe]")
    )
    assert study.config("dense", 1).recipe.batch_size == 16
    assert study.config("scratch", 1).recipe.batch_size == 8
    assert [study.config("dense", seed).recipe.seed for seed in study.seeds] == [0, 1]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("updates = 5", "updates = 5\nimages = 9"), "exactly one of updates, images, flops"),
        (("updates = 5", ""), "exactly one of updates, images, flops and seconds, not 0"),
        (("updates = 5", "steps = 5"), "there is no key 'budget.steps'"),
        (('baseline = "dense"', 'baseline = "dens"'), "baseline 'dens' is no arm"),
        (("seeds = [0, 1]", "seeds = [1, 1]"), "seeds [1, 1] must differ"),
        (("[arms.dense]", "[arms.dense]\n[arms.'../dense']"), "names a folder"),
        (("scratch = true", "scratch = true\nrecycle = {}"), "not by scratch and recycle"),
        (("batch_size = 16", "batchsize = 16"), "did you mean 'batch_size'?"),
        (('validation = "test"', ""), "no held-out images"),
        (("[run.keep]", "[run.start]\nnew_head = true\n[run.keep]"), "run.start is made by each"),
        (('name = "small"', "name = "), "is not TOML"),
    ],
)
def test_faults_are_refused_in_one_sentence(study_of, change, says):
    with pytest.raises(Refusal, match=re.escape(says)) as refused:
        study_of(change)
    assert "\n" not in str(refused.value)


def test_an_arm_that_recycles_needs_layers(study_of, text):
    moe = text[text.index("[arms.recycled.moe]") :]
    with pytest.raises(Refusal, match="needs the layers to make, in its moe"):
        study_of((moe, ""))
