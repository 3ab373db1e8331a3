import numpy as np
import pytest
import torch
from PIL import Image

from routelab.capture import CaptureOptions, capture, preparation, session
from routelab.records import Refusal
from routelab.store import open_store, verify_store
from tests.capture.small import CLASSES, make_checkpoint, make_folder


def options(checkpoint, images, out, **changes):
    usual = {"batch_size": 8, "shard": 16, "full": "all"}
    return CaptureOptions(checkpoint=checkpoint, data=str(images), out=out, **usual | changes)


def refused(made, words):
    """The capture is refused in one sentence and leaves nothing at its output."""
    with pytest.raises(Refusal, match=words) as caught:
        capture(made)
    assert "\n" not in str(caught.value)
    assert not made.out.exists()


def test_a_missing_checkpoint(images, tmp_path):
    refused(options(tmp_path / "none.safetensors", images, tmp_path / "s.zarr"), "does not exist")


def test_a_dense_checkpoint(images, tmp_path):
    dense = make_checkpoint(tmp_path, moe=False)
    refused(
        options(dense, images, tmp_path / "s.zarr"),
        r"dense VisionTransformer with no MoE layer.*blocks\.0\.mlp.*routelab inspect",
    )


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ("0", "layer 0 is not a MoE layer of this model; the nearest are 1, 2"),
        ("1-5", "layer 3 is not a MoE layer"),
        ("2-1", "layer 2-1 is not"),
        ("blocks.1.mpl", "nearest are blocks.1.mlp"),
        (",", "names no layer"),
    ],
)
def test_a_layer_that_is_not_moe(layers, words, checkpoints, images, tmp_path):
    refused(options(checkpoints(), images, tmp_path / "s.zarr", layers=layers), words)


def test_another_number_of_classes(checkpoints, tmp_path):
    folder = make_folder(tmp_path / "images", 8, classes=CLASSES[:2])
    refused(options(checkpoints(), folder, tmp_path / "s.zarr"), "knows 3 classes and .* has 2")


def test_other_classes(checkpoints, tmp_path):
    folder = make_folder(tmp_path / "images", 9, classes=("ant", "bee", "dog"))
    refused(
        options(checkpoints(), folder, tmp_path / "s.zarr"), '"cat" in the checkpoint and "dog"'
    )


def test_an_empty_folder(checkpoints, tmp_path):
    (tmp_path / "images").mkdir()
    with pytest.raises(Refusal):
        capture(options(checkpoints(), tmp_path / "images", tmp_path / "s.zarr"))
    assert not (tmp_path / "s.zarr").exists()


def test_a_corrupt_image_is_refused_by_name_or_left_out(checkpoints, tmp_path):
    folder = make_folder(tmp_path / "images", 20)
    (folder / "bee" / "broken.jpg").write_bytes(b"\xff\xd8 no picture")
    refused(options(checkpoints(), folder, tmp_path / "s.zarr"), "broken.jpg")
    report = capture(options(checkpoints(), folder, tmp_path / "s.zarr", skip_corrupt=True))
    assert report.committed == 20
    assert any("broken.jpg" in sentence for sentence in report.warnings)
    assert open_store(report.store).card.data.skipped


def test_an_output_that_exists_is_refused_before_any_work(images, tmp_path):
    out = tmp_path / "s.zarr"
    out.mkdir()
    (out / "mine.txt").write_text("keep me")
    missing = tmp_path / "never-read.safetensors"
    with pytest.raises(Refusal, match=r"exists; go on with --resume"):
        capture(options(missing, images, out))
    assert [path.name for path in out.iterdir()] == ["mine.txt"]


def test_overwriting_replaces_a_store_but_no_other_folder(checkpoints, images, tmp_path):
    out = tmp_path / "s.zarr"
    capture(options(checkpoints(), images, out, limit=8))
    capture(options(checkpoints(), images, out, limit=16, overwrite=True))
    assert open_store(out).committed == 16
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "chapter.txt").write_text("keep me")
    with pytest.raises(Refusal, match="not a RouteLab store"):
        capture(options(checkpoints(), images, other, overwrite=True))
    assert (other / "chapter.txt").exists()


def test_nothing_to_resume(checkpoints, images, tmp_path):
    refused(options(checkpoints(), images, tmp_path / "s.zarr", resume=True), "nothing to resume")


def test_resume_and_overwrite_contradict(checkpoints, images, tmp_path):
    made = options(checkpoints(), images, tmp_path / "s.zarr", resume=True, overwrite=True)
    refused(made, "give one of them")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"level": "profiles", "features": "tokens"}, "needs full routing"),
        ({"shard": 12}, "no multiple of the batch"),
        ({"device": "abacus"}, "not a device"),
        ({"device": "cuda"}, "not available"),
        ({"budget": "a lot"}, "not a size"),
        ({"budget": "1KB"}, "does not hold even the totals"),
    ],
)
def test_options_that_cannot_be_kept(changes, words, checkpoints, images, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    refused(options(checkpoints(), images, tmp_path / "s.zarr", **changes), words)


def test_a_disk_that_is_too_small_is_told_before(checkpoints, images, tmp_path, monkeypatch):
    class Usage:
        free = 1000

    monkeypatch.setattr(preparation.shutil, "disk_usage", lambda folder: Usage)
    refused(options(checkpoints(), images, tmp_path / "s.zarr"), r"has 1\.0 KB free")


def spoil(depth):
    """A change of the model that makes one layer's router give NaN."""

    def change(model):
        with torch.no_grad():
            model.blocks[depth].mlp.router.gate.weight.fill_(torch.nan)

    return change


def test_a_layer_whose_router_gives_nan_is_left_out_and_the_others_kept(images, tmp_path):
    bad = make_checkpoint(tmp_path, "topk", change=spoil(2))
    report = capture(options(bad, images, tmp_path / "s.zarr"))
    store = open_store(report.store)
    assert [spec.key for spec in store.layers] == ["01"]
    assert "NaN" in store.card.refused["02"]
    assert any(sentence.startswith("layer 02 is left out") for sentence in report.warnings)
    assert report.certificate.passed, report.warnings
    assert "02 left out" in report.certificate.checks[0].detail
    assert all(check.passed for check in verify_store(store))


def test_nan_in_every_layer_is_refused(images, tmp_path):
    def change(model):
        spoil(1)(model)
        spoil(2)(model)

    bad = make_checkpoint(tmp_path, "topk", change=change)
    refused(options(bad, images, tmp_path / "s.zarr"), "no layer can be captured: layer 01")


def nan_on_white_images(model, depth):
    """Let one router answer NaN for every image that is white all over, and for no other."""
    white = []

    def look(module, inputs):
        white[:] = (inputs[0].amax(dim=(1, 2, 3)) == inputs[0].amin(dim=(1, 2, 3))).tolist()

    def answer(module, inputs, routing):
        gate = routing.gate.clone()
        gate[torch.tensor(white)] = torch.nan
        return routing._replace(gate=gate)

    model.patch_embed.register_forward_pre_hook(look)
    model.blocks[depth].mlp.router.register_forward_hook(answer)


def test_nan_in_the_middle_of_a_run_leaves_the_layer_out(checkpoints, tmp_path, monkeypatch):
    folder = make_folder(tmp_path / "images", 40)
    Image.fromarray(np.full((32, 32, 3), 255, np.uint8)).save(folder / "cat" / "999.png")
    load = session.load_checkpoint

    def load_spoiled(path):
        model, card = load(path)
        nan_on_white_images(model, 2)
        flat = card.transform.model_copy(update={"mean": (0.5,) * 3, "std": (0.5,) * 3})
        return model, card.model_copy(update={"transform": flat})

    monkeypatch.setattr(session, "load_checkpoint", load_spoiled)
    report = capture(options(checkpoints("topk"), folder, tmp_path / "s.zarr"))
    store = open_store(report.store)
    assert store.committed == 41
    assert [spec.key for spec in store.layers] == ["01"]
    assert "cat/999.png" in store.card.refused["02"]
    assert report.certificate.passed, report.warnings
    assert all(check.passed for check in verify_store(store))
