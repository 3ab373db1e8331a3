import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from routelab.capture import CaptureOptions, Reporter, capture, replay_store
from routelab.data import open_data
from routelab.models import load_checkpoint
from routelab.records import Refusal
from routelab.store import open_store, verify_store
from tests.capture.plain_tables import image_sums, image_tables
from tests.capture.small import CLASSES, ROUTERS, make_checkpoint, make_folder


def options(checkpoint, images, out, **changes):
    usual = {"batch_size": 8, "shard": 16, "full": "all", "features": "tokens"}
    return CaptureOptions(checkpoint=checkpoint, data=str(images), out=out, **usual | changes)


def full_routing(store, layer, image):
    """Full routing of one image, as a reader has it."""
    row = slice(image, image + 1)
    if store.spec(layer).soft:
        arrays = {"dispatch": store.dispatch(layer, row), "combine": store.combine(layer, row)}
    else:
        arrays = store.choices(layer, row)
    return {name: array[0] for name, array in arrays.items()}


@pytest.mark.parametrize("kind", ROUTERS)
def test_a_capture_is_certified_and_equals_a_plain_recomputation(kind, captured):
    report = captured(kind)
    assert report.status == "complete"
    assert report.exit_code == 0
    assert report.certificate.passed, report.warnings
    assert not report.warnings
    store = open_store(report.store)
    assert store.committed == 50
    assert store.classes == CLASSES
    assert [check for check in verify_store(store) if not check.passed] == []
    for spec in store.layers:
        full = [full_routing(store, spec.key, i) for i in range(50)]
        tables = [image_tables(arrays, spec) for arrays in full]
        for name in tables[0]:
            expected = np.stack([table[name] for table in tables])
            # one token in a near tie may change its expert between the logits and their int16
            loose = name in ("hits", "disagreement", "coherence")
            found = store.table(spec.key, name)
            if loose and spec.soft:
                assert np.mean(~np.isclose(found, expected, equal_nan=True)) < 0.01, name
            else:
                tolerance = 2e-3 if name == "gate_probs_profile" else 2e-4
                np.testing.assert_allclose(
                    found, expected, rtol=tolerance, atol=tolerance, err_msg=name
                )
        sums = [image_sums(arrays, spec) for arrays in full]
        for name in sums[0]:
            expected = np.sum([s[name] for s in sums], axis=0)
            np.testing.assert_allclose(
                store.total(spec.key, name), expected, rtol=5e-4, atol=2e-3, err_msg=name
            )


@pytest.mark.parametrize("kind", ["soft", "image"])
def test_totals_are_the_sums_of_the_tables(kind, captured):
    store = open_store(captured(kind).store)
    labels = store.labels
    for spec in store.layers:
        profile, hits = store.table(spec.key, "profile"), store.table(spec.key, "hits")
        by_class = np.stack([profile[labels == c].sum(0, dtype=float) for c in range(3)])
        np.testing.assert_allclose(store.total(spec.key, "class_mass"), by_class, rtol=1e-12)
        np.testing.assert_array_equal(store.total(spec.key, "class_count"), np.bincount(labels))
        np.testing.assert_array_equal(store.total(spec.key, "load"), hits.sum(0))
        batches = store.total(spec.key, "batch_load")
        assert batches.shape == (7, spec.experts)
        np.testing.assert_array_equal(batches[-1], hits[48:].sum(0))


def test_predictions_probabilities_and_features_are_the_model_s_own(checkpoints, images, tmp_path):
    capture(options(checkpoints("topk"), images, tmp_path / "s.zarr", batch_size=50, shard=50))
    store = open_store(tmp_path / "s.zarr")
    model, card = load_checkpoint(checkpoints("topk"))
    pixels = pixels_of(images, card)
    seen = {}
    layer = model.blocks[1].mlp
    handle = layer.register_forward_hook(lambda m, i, o: seen.update(input=i[0], output=o))
    with torch.inference_mode():
        logits = model(pixels)
    handle.remove()
    np.testing.assert_array_equal(store.predictions, logits.argmax(1))
    own = logits.softmax(1)[torch.arange(50), torch.from_numpy(store.labels)]
    np.testing.assert_allclose(store.probability, own, rtol=1e-6)
    np.testing.assert_array_equal(store.tokens("01"), seen["input"].half())
    for name, tensor in (
        ("pooled", seen["input"][:, 1:].mean(1)),
        ("pooled_output", seen["output"][:, 1:].mean(1)),
        ("class_token", seen["input"][:, 0]),
        ("class_token_output", seen["output"][:, 0]),
    ):
        np.testing.assert_array_equal(store.table("01", name), tensor.half(), err_msg=name)
    assert store.thumbnails(slice(0, 3)).shape == (3, 32, 32, 3)


def pixels_of(images, card):
    return next(iter(open_data(str(images), card.transform).batches(50))).pixels


def test_thumbnails_show_the_images(captured, images):
    store = open_store(captured().store)
    first = np.asarray(Image.open(images / store.ids[0]))
    assert np.abs(store.thumbnails(slice(0, 1))[0].astype(int) - first).max() <= 1


@pytest.mark.parametrize(("level", "stored"), [("totals", 0), ("profiles", 0), ("full", 20)])
def test_levels_keep_what_they_say(level, stored, checkpoints, images, tmp_path):
    features = "tokens" if level == "full" else "pooled"
    made = options(
        checkpoints(), images, tmp_path / "s.zarr", level=level, full=20, features=features
    )
    report = capture(made)
    store = open_store(tmp_path / "s.zarr")
    assert report.certificate.passed
    assert store.full == stored
    assert store.card.capture.level == level
    assert store.total("01", "load").sum() == 50 * 16
    if level == "totals":
        assert store.tables("01") == ()
    else:
        assert store.profile("01").shape == (50, 5)
    if level == "full":
        assert store.logits("02").shape == (20, 17, 8)
        assert store.tokens("02").shape == (20, 17, 48)


def test_unlabelled_images_have_no_class_sums(checkpoints, tmp_path):
    folder = make_folder(tmp_path / "loose", 10, classes=())
    capture(options(checkpoints(), folder, tmp_path / "s.zarr"))
    store = open_store(tmp_path / "s.zarr")
    assert (store.labels == -1).all()
    assert np.isnan(store.probability).all()
    assert "class_mass" not in store.totals("01")


def test_a_model_without_classes_predicts_none(tmp_path, images):
    headless = make_checkpoint(tmp_path, "topk", classes=())
    report = capture(options(headless, images, tmp_path / "s.zarr"))
    store = open_store(report.store)
    assert report.certificate.passed
    assert (store.predictions == -1).all()
    assert np.isnan(store.probability).all()
    assert store.total("01", "class_count").sum() == 50


def test_layers_are_chosen_by_number(checkpoints, images, tmp_path):
    capture(options(checkpoints(), images, tmp_path / "s.zarr", layers="2"))
    assert [spec.key for spec in open_store(tmp_path / "s.zarr").layers] == ["02"]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("kind", ["soft", "topk"])
def test_autocast_is_captured_and_replayed(kind, dtype, checkpoints, images, tmp_path):
    report = capture(options(checkpoints(kind), images, tmp_path / "s.zarr", dtype=dtype, limit=16))
    assert report.certificate.passed, report.warnings
    assert open_store(tmp_path / "s.zarr").card.capture.dtype == dtype


def test_a_dry_run_plans_and_writes_nothing(checkpoints, images, tmp_path):
    report = capture(options(checkpoints(), images, tmp_path / "s.zarr", dry_run=True))
    assert report.status == "planned"
    assert report.plan.seconds > 0
    assert not (tmp_path / "s.zarr").exists()
    assert list(tmp_path.iterdir()) == []


def test_the_plan_is_what_is_written(captured):
    report = captured()
    store, plan = open_store(report.store), report.plan
    for spec in plan.layers:
        planned = {(a.section, a.name): a for a in plan.arrays if a.layer == spec.key}
        written = {
            path.name for path in (store.path / "layers" / spec.key).iterdir() if path.is_dir()
        }
        assert written == {name for section, name in planned if section != "sums"}
        assert {name for section, name in planned if section == "sums"} == set(
            store.totals(spec.key)
        )
        read = {"sums": store.total, "full": store.full_array, "tables": store.table}
        for (section, name), array in planned.items():
            stored = read[section](spec.key, name)
            assert (stored.shape, str(stored.dtype)) == (array.shape, array.dtype), name
    on_disk = sum(file.stat().st_size for file in store.path.rglob("c.*"))
    assert on_disk == pytest.approx(plan.bytes, rel=0.2)


def test_progress_is_told(checkpoints, images, tmp_path):
    class Listener(Reporter):
        def __init__(self):
            self.plans, self.steps = [], []

        def planned(self, plan):
            self.plans.append(plan)

        def advanced(self, images, total, committed):
            self.steps.append((images, total))

    listener = Listener()
    capture(options(checkpoints(), images, tmp_path / "s.zarr"), listener)
    assert len(listener.plans) == 1
    assert listener.steps == [(min(n, 50), 50) for n in range(8, 57, 8)]


def test_a_finished_store_can_be_replayed_later(checkpoints, images, tmp_path):
    out = tmp_path / "s.zarr"
    capture(options(checkpoints(), images, out, full=20))
    checks = replay_store(out, checkpoints())
    assert all(check.passed for check in checks)
    assert {check.name for check in checks} >= {
        "replay of stored routing gives the layer's output",
        "stored routing is that of a second forward pass",
    }


def test_replaying_finds_changed_routing(captured, checkpoints, tmp_path):
    out = tmp_path / "s.zarr"
    shutil.copytree(captured("topk").store, out)
    changed = exchange_two_images(out / "layers" / "01" / "expert")
    failed = {check.name for check in replay_store(out, checkpoints("topk")) if not check.passed}
    assert changed
    assert "stored routing is that of a second forward pass" in failed


def exchange_two_images(folder):
    """Swap images 0 and 1 of an array through the plain zarr API."""
    import zarr

    array = zarr.open_array(folder, mode="r+")
    rows = array[:16]
    rows[[0, 1]] = rows[[1, 0]]
    array[:16] = rows
    return not np.array_equal(rows[0], rows[1])


def test_another_checkpoint_is_not_replayed(captured, checkpoints):
    with pytest.raises(Refusal, match="another checkpoint"):
        replay_store(captured("topk").store, checkpoints("soft"))


def test_other_images_are_not_replayed(captured, checkpoints, tmp_path):
    other = make_folder(tmp_path / "other", 12)
    with pytest.raises(Refusal, match="are not the 50"):
        replay_store(captured().store, checkpoints(), data=str(other))
