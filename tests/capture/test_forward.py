import numpy as np
import pytest
import torch

from routelab.capture.forward import predict
from routelab.capture.machine import find_machine
from routelab.capture.options import CaptureOptions
from routelab.capture.thumbnails import thumbnails
from routelab.records import Refusal, Transform


def test_predictions_and_the_probability_of_the_label():
    logits = torch.tensor([[0.0, 2.0, 1.0], [3.0, 0.0, 0.0], [torch.nan, 0.0, 0.0]])
    prediction, probability = predict(logits, torch.tensor([1, -1, 0]))
    assert prediction.tolist() == [1, 0, -1]
    assert prediction.dtype == torch.int32
    assert probability[0] == pytest.approx(0.66524096)  # e² / (1 + e² + e)
    assert probability[1:].isnan().all()


def test_thumbnails_undo_the_normalisation():
    levels = torch.randint(0, 256, (2, 3, 20, 20))
    transform = Transform(size=20)
    mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in (transform.mean, transform.std))
    small = thumbnails((levels / 255 - mean) / std, transform)
    np.testing.assert_array_equal(small, levels.movedim(1, -1))


def test_large_images_shrink_and_grey_ones_get_three_channels():
    transform = Transform(size=224, channels=1, mean=(0.5,), std=(0.5,))
    small = thumbnails(torch.ones(1, 1, 224, 224), transform)
    assert small.shape == (1, 112, 112, 3)
    assert (small == 255).all()


def test_auto_takes_what_is_there(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert find_machine("auto", "float32").device.type == "cpu"
    with pytest.raises(Refusal, match="mps is not available"):
        find_machine("mps", "float32")


def test_the_command_is_the_same_whether_resumed_or_not(tmp_path):
    usual = {"checkpoint": "model.safetensors", "data": "my images", "batch_size": 8}
    first = CaptureOptions(out=tmp_path / "a.zarr", overwrite=True, **usual)
    again = CaptureOptions(out=tmp_path / "b.zarr", resume=True, **usual)
    expected = "routelab capture model.safetensors --data 'my images' --batch-size 8"
    assert first.command() == again.command() == expected
    assert again.resume_command() == f"{expected} --out {tmp_path}/b.zarr --resume"
