"""`routelab eval` says what plain counting says."""

import itertools
import json

import numpy as np
import pytest
import torch
from PIL import Image

from routelab.data import open_data
from routelab.metrics import wilson_interval
from routelab.models import count, load_checkpoint


def test_eval_measures_a_checkpoint(run, checkpoints):
    path = checkpoints / "moe.safetensors"
    line = ["eval", path, "--data", "digits", "--limit", "50"]
    code, stdout, _ = run(*line, "--json", "--batch-size", "16")
    assert code == 0
    facts = json.loads(stdout)
    model, card = load_checkpoint(path)
    data = open_data("digits", card.transform, split="test", limit=50)
    with torch.no_grad():
        logits = torch.cat([model(batch.pixels) for batch in data.batches(50)]).double()
    labels = torch.from_numpy(data.labels)
    right = logits.argmax(1) == labels
    assert facts["top1"]["value"] == pytest.approx(right.double().mean().item())
    ranks = (logits > logits.gather(1, labels[:, None])).sum(1)
    assert facts["top5"]["value"] == pytest.approx((ranks < 5).double().mean().item())
    low, high = wilson_interval(int(right.sum()), 50)
    assert (facts["top1"]["low"], facts["top1"]["high"]) == pytest.approx((low, high))
    three = facts["per_class"]["3"]
    assert three["images"] == int((labels == 3).sum())
    assert three["value"] == pytest.approx(right[labels == 3].double().mean().item())
    assert facts["calibration_error"] == pytest.approx(calibration(logits, right), abs=1e-6)
    assert facts["parameters"] == count(model, card).total
    assert facts["images_per_second"] > 0
    code, stdout, _ = run(*line)
    assert code == 0
    assert "calibration error" in stdout


def calibration(logits, right):
    confidence = logits.softmax(1).max(1).values.numpy()
    edges, error = np.linspace(0, 1, 16), 0.0
    for low, high in itertools.pairwise(edges):
        inside = (confidence > low) & (confidence <= high)
        if inside.any():
            error += inside.mean() * abs(right.numpy()[inside].mean() - confidence[inside].mean())
    return error


def test_eval_refuses_other_classes(run, checkpoints, tmp_path):
    for name in ("cat/1.png", "dog/1.png"):
        (tmp_path / name).parent.mkdir(parents=True)
        Image.new("L", (8, 8)).save(tmp_path / name)
    code, _, stderr = run("eval", checkpoints / "moe.safetensors", "--data", tmp_path)
    assert code == 2
    assert "the checkpoint has 10 classes and the data 2" in stderr
