"""A configuration is read, merged and refused by name."""

from pathlib import Path

import pytest

from routelab.models import moe_layers
from routelab.records import Refusal
from routelab.training import RECIPES, Recipe, RunConfig, read_config
from routelab.training.config import first_difference


def test_the_later_wins(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text('[recipe]\nbase = "jetpack-small"\nepochs = 5\nmixing = { mixup = 0.2 }\n')
    config = read_config(path, settings=["epochs=7", "keep.probe=3", "data.source=photos"])
    assert config.recipe.epochs == 7
    assert config.recipe.mixing.mixup == 0.2
    assert config.recipe.mixing.cutmix == 1.0
    assert config.recipe.layer_decay == 0.6
    assert config.keep.probe == 3
    assert config.data.source == "photos"
    assert read_config(path, recipe="digits").recipe.learning_rate == 4e-3
    stored = tmp_path / "c.json"
    stored.write_text(config.model_dump_json())
    assert read_config(stored) == config
    assert read_config(settings=["clip=none"]).recipe.clip is None


def test_settings_do_not_reach_what_they_are_laid_over():
    values = {"recipe": {"mixing": {"mixup": 0.1}}}
    config = read_config(values=values, recipe="jetpack-small", settings=["mixing.cutmix=0.3"])
    assert (config.recipe.mixing.mixup, config.recipe.mixing.cutmix) == (0.1, 0.3)
    assert values == {"recipe": {"mixing": {"mixup": 0.1}}}
    assert RECIPES["jetpack-small"].values["mixing"] == {"mixup": 0.8, "cutmix": 1.0}


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_is_valid_and_says_where_it_comes_from(name):
    assert Recipe.model_validate(RECIPES[name].values)
    assert RECIPES[name].source
    assert f"`{name}`" in (Path(__file__).parents[2] / "README.md").read_text()


def test_jetpacks_recipe_is_the_released_one():
    recipe = Recipe.model_validate(RECIPES["jetpack-imagenet"].values)
    assert recipe.batch_size * recipe.accumulation == 4096
    assert recipe.warmup * recipe.epochs == pytest.approx(20)
    assert (recipe.learning_rate, recipe.layer_decay, recipe.clip) == (4e-3, 0.6, 5.0)


def test_the_first_difference_is_named():
    old = read_config()
    assert first_difference(old, RunConfig()) is None
    new = read_config(settings=["recipe.mixing.mixup=0.5", "keep.probe=1"])
    assert first_difference(old, new) == ("recipe.mixing.mixup", 0.0, 0.5)
    assert first_difference(old, read_config(settings=["moe.layers=[1]", *MOE]))[0] == "moe"


MOE = ['moe.router={kind="soft"}', "moe.groups=[{experts=2}]"]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (["keep.prob=1"], "no key 'keep.prob'; did you mean 'probe'"),
        (["start.architectur=x"], "did you mean 'architecture'"),
        (["weight_decai=1"], "did you mean 'recipe.weight_decay'"),
        (["zzz=1"], "no key 'zzz'; known here: start, moe, data, recipe, keep, device"),
        ([*MOE, "moe.layers=[1]", "moe.router.nose=1"], "did you mean"),
        (["recipe.epochs=0"], "recipe.epochs = 0 is refused: Input should be greater than"),
        (["cache_prefix=true"], "set trains to suffix or moe"),
        (["recipe=3"], "recipe is 3, not a section"),
        (["data.source=x", "data.source.more=1"], "source is 'x' and holds no keys"),
        (["base=jetpak"], "there is no recipe 'jetpak'; did you mean 'jetpack-"),
    ],
)
def test_what_is_wrong_is_named(settings, sentence):
    with pytest.raises(Refusal) as refused:
        read_config(settings=settings)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_settings_reach_the_model():
    from routelab.training import start_run
    from tests.training.small_runs import small_config

    model, card = start_run(small_config())
    assert list(moe_layers(model)) == ["blocks.1.mlp"]
    assert card.transform.size == 8
