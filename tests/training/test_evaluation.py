import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from routelab.data import in_memory, open_data
from routelab.records import Refusal
from routelab.training import evaluate
from tests.training.small_models import TRANSFORM, some_digits


class AlwaysThree(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, pixels):
        logits = torch.zeros(len(pixels), 10)
        logits[:, 3] = 1
        return logits


def test_accuracy_in_all_and_by_class():
    data = some_digits(100)
    model = AlwaysThree().train()
    found = evaluate(model, data, batch_size=7)
    assert found.accuracy == pytest.approx((data.labels == 3).mean())
    assert found.per_class.tolist() == [0, 0, 0, 1, 0, 0, 0, 0, 0, 0]
    assert (found.predictions == 3).all()
    assert found.n == 100
    assert model.training


def test_a_class_without_images_has_no_accuracy():
    data = open_data("digits", TRANSFORM)
    found = evaluate(AlwaysThree(), in_memory(data.subset(np.flatnonzero(data.labels == 3)[:4])))
    assert found.accuracy == 1
    assert np.isnan(found.per_class).sum() == 9


def test_images_without_labels_are_refused(tmp_path):
    Image.new("L", (8, 8)).save(tmp_path / "a.png")
    with pytest.raises(Refusal, match="no image has a label"):
        evaluate(AlwaysThree(), open_data(tmp_path, TRANSFORM))
