import json

import numpy as np
import pytest
import torch
from PIL import Image

from routelab.data import Augmentation, open_data
from routelab.models import load_checkpoint
from routelab.records import ImageRouting, Refusal, SoftRouting
from routelab.training import Recipe, evaluate, train, train_to
from tests.training.small_models import TOPK, TRANSFORM, small_card, small_model, some_digits


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def test_a_small_model_learns_the_digits():
    model = small_model()
    recipe = Recipe(epochs=12, batch_size=32, learning_rate=4e-3)
    history = train(model, some_digits(600), recipe)
    assert history.epochs[0].parts["cross_entropy"] > history.last.parts["cross_entropy"]
    assert evaluate(model, some_digits(200, "test")).accuracy > 0.6
    assert not model.training


def test_the_same_seed_gives_the_same_weights_and_leaves_the_callers_random_state():
    recipe = Recipe(epochs=1, batch_size=50, augmentation=Augmentation(shift=0.1))
    data = some_digits(100)
    state = torch.get_rng_state()
    first, second, other = (small_model(TOPK) for _ in range(3))
    state = torch.get_rng_state()
    train(first, data, recipe)
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(7)
    train(second, data, recipe)
    train(other, data, recipe.model_copy(update={"seed": 1}))
    assert torch.equal(weights(first), weights(second))
    assert not torch.equal(weights(first), weights(other))


def test_the_log_has_every_part_of_the_loss(tmp_path):
    auxiliary = {"balance": 0.01, "importance": 0.02, "load": 0.02, "router_z": 0.001}
    recipe = Recipe(epochs=2, batch_size=50, auxiliary=auxiliary, label_smoothing=0)
    path = tmp_path / "new" / "moe.safetensors"
    card, history = train_to(
        path,
        small_model(TOPK),
        small_card(TOPK),
        some_digits(100),
        recipe,
        validation=some_digits(50, "test"),
    )
    first, *lines = path.with_suffix(".log.jsonl").read_text().splitlines()
    assert Recipe.model_validate_json(first) == recipe
    assert [json.loads(line)["epoch"] for line in lines] == [1, 2]
    last = json.loads(lines[-1])
    assert set(last["parts"]) == {"cross_entropy", *auxiliary}
    weighted = sum({"cross_entropy": 1, **auxiliary}[n] * v for n, v in last["parts"].items())
    assert last["loss"] == pytest.approx(weighted, rel=1e-5)
    assert last["gradient_norm"] > 0
    model, read = load_checkpoint(path)
    assert read == card
    assert read.metrics["validation_accuracy"] == history.last.validation
    assert evaluate(model, some_digits(50, "test")).accuracy == history.last.validation


def test_progress_counts_every_image():
    told = []
    train(
        small_model(),
        some_digits(70),
        Recipe(epochs=2, batch_size=32),
        progress=lambda done, total: told.append((done, total)),
    )
    assert told == [(32, 140), (64, 140), (70, 140), (102, 140), (134, 140), (140, 140)]


def test_the_rate_rises_then_falls_to_nothing():
    recipe = Recipe(epochs=10, batch_size=50, learning_rate=1e-3, warmup=0.3)
    rates = [e.learning_rate for e in train(small_model(), some_digits(50), recipe).epochs]
    assert np.argmax(rates) == 3
    assert rates[3] == pytest.approx(1e-3)
    assert np.all(np.diff(rates[:4]) > 0)
    assert np.all(np.diff(rates[3:]) < 0)
    assert rates[-1] < 1e-4


def test_what_cannot_be_trained_is_refused(tmp_path):
    data = some_digits(50)
    soft = small_model(TOPK.model_copy(update={"router": SoftRouting()}))
    quiet = small_model(TOPK.model_copy(update={"router": ImageRouting()}))
    with pytest.raises(Refusal, match="'balance' acts on token choice"):
        train(soft, data, Recipe(auxiliary={"balance": 0.1}))
    with pytest.raises(Refusal, match="needs noise in every router"):
        train(quiet, data, Recipe(auxiliary={"load": 0.1}))
    with pytest.raises(Refusal, match="needs a MoE model"):
        train(small_model(), data, Recipe(trains="moe"))
    Image.new("L", (8, 8)).save(tmp_path / "a.png")
    with pytest.raises(Refusal, match="images without labels"):
        train(small_model(), open_data(tmp_path, TRANSFORM), Recipe())


def test_a_class_count_that_differs_is_refused():
    from routelab.models import build

    model = build(small_card().model_copy(update={"classes": ("a", "b")}))
    with pytest.raises(Refusal, match="the model has 2 classes and the data 10"):
        train(model, some_digits(20), Recipe())


def test_a_loss_that_is_not_finite_is_refused_and_nothing_is_saved(tmp_path):
    model = small_model()
    with torch.no_grad():
        model.head.bias.fill_(float("nan"))
    path = tmp_path / "x.safetensors"
    with pytest.raises(Refusal, match="not finite at update 1 of"):
        train_to(path, model, small_card(), some_digits(20), Recipe())
    assert not path.exists()
