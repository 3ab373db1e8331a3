"""A budget buys the same number of updates whatever it is counted in."""

import pytest

from routelab.models import build, save_checkpoint
from routelab.records import ModelCard, Refusal, Transform
from routelab.study import Budget
from routelab.study.budget import updates_for
from routelab.training import DataChoice, Recipe, RunConfig, Start

CONFIG = RunConfig(recipe=Recipe(batch_size=16, accumulation=2))
FLOPS = 100.0


@pytest.mark.parametrize(
    ("budget", "updates"),
    [
        (Budget(updates=7), 7),
        (Budget(images=7 * 32 + 31), 7),
        (Budget(flops=7 * 32 * 3 * FLOPS), 7),
    ],
)
def test_what_a_budget_buys(budget, updates):
    assert updates_for(budget, 1.0, CONFIG, FLOPS) == updates
    assert updates_for(budget, 2.0, CONFIG, FLOPS) == 2 * updates + (budget.images is not None)


def test_a_costly_arm_gets_fewer_updates_for_its_flops():
    budget = Budget(flops=6 * 32 * 3 * FLOPS)
    assert updates_for(budget, 1.0, CONFIG, 2 * FLOPS) == 3


def test_a_budget_that_buys_nothing_is_refused():
    with pytest.raises(Refusal, match="buys no update of 32 images"):
        updates_for(Budget(images=31), 1.0, CONFIG, FLOPS)


def test_wall_time_is_bought_at_the_pace_of_the_first_updates(tmp_path):
    card = ModelCard(
        architecture="vit_tiny_patch16_224",
        arguments={"img_size": 8, "patch_size": 4, "embed_dim": 24, "depth": 2, "num_heads": 3},
        classes=tuple("0123456789"),
        transform=Transform(size=8, channels=1, mean=(0.5,), std=(0.5,)),
    )
    path = tmp_path / "dense.safetensors"
    save_checkpoint(path, build(card, seed=0), card)
    config = RunConfig(
        start=Start(checkpoint=str(path)),
        data=DataChoice(source="digits", limit=64),
        recipe=Recipe(batch_size=16),
    )
    short = updates_for(Budget(seconds=1.0), 1.0, config, FLOPS)
    long = updates_for(Budget(seconds=100.0), 1.0, config, FLOPS)
    assert 1 <= short < long
    assert sorted(tmp_path.iterdir()) == [path.with_suffix(".json"), path]
