"""Runs on image files with timm's augmentation, and on cached tokens, resume exactly too."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

from routelab.records import Refusal
from routelab.training import read_config, train_run
from tests.training.small_runs import MOE, START, killed_at_sync, small_config, weights_of


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    noise = np.random.default_rng(0)
    for number in range(24):
        path = folder / "train" / f"class {number % 3}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(noise.integers(0, 256, (12, 10, 3), dtype=np.uint8)).save(path)
    return folder


def photo_config(photos, workers):
    return read_config(
        values={
            "start": START,
            "moe": MOE,
            "data": {"source": str(photos), "workers": workers},
            "recipe": {
                "epochs": 2,
                "batch_size": 4,
                "pictures": {"rand_augment": "rand-m9-mstd0.5-inc1", "erasing": 0.25},
                "mixing": {"mixup": 0.8},
            },
            "keep": {"state_updates": 1, "snapshots": 0},
        }
    )


def test_pictures_are_the_same_after_a_kill_and_from_any_number_of_workers(photos, tmp_path):
    train_run(photo_config(photos, 0), tmp_path / "whole")
    config = photo_config(photos, 1)
    assert killed_at_sync(10, lambda: train_run(config, tmp_path / "broken"))
    train_run(config, tmp_path / "broken", resume=True)
    whole, broken = (weights_of(tmp_path / name)["last"] for name in ("whole", "broken"))
    assert all(torch.equal(whole[name], broken[name]) for name in whole)


def test_other_images_are_not_gone_on_with(photos, tmp_path):
    config = photo_config(photos, 0)
    train_run(config, tmp_path / "run")
    environment = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert environment["classes"] == ["class 0", "class 1", "class 2"]
    added = photos / "train" / "class 0" / "new.png"
    Image.new("RGB", (8, 8)).save(added)
    try:
        with pytest.raises(Refusal, match="begun with other images sha256"):
            train_run(config, tmp_path / "run", resume=True)
    finally:
        added.unlink()


def test_a_run_on_cached_tokens_resumes_exactly(tmp_path):
    still = {"mixing": {}, "augmentation": {}, "drop_path": 0.0}
    config = small_config("trains=moe", "cache_prefix=true", "epochs=1", **still)
    train_run(config, tmp_path / "whole")
    assert killed_at_sync(8, lambda: train_run(config, tmp_path / "broken"))
    train_run(config, tmp_path / "broken", resume=True)
    whole, broken = (weights_of(tmp_path / name)["last"] for name in ("whole", "broken"))
    assert all(torch.equal(whole[name], broken[name]) for name in whole)
