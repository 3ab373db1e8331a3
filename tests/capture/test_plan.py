import pytest
import torch

from routelab.capture.pipeline import Address, Field
from routelab.capture.plan import (
    choose_shard,
    fit_budget,
    parse_bytes,
    plan_capture,
    readable,
)
from routelab.records import CaptureCard, GroupRange, Refusal, RouterSpec, SoftRecipe

SPEC = RouterSpec(
    layer="blocks.6.mlp",
    depth=6,
    kind="soft",
    tokens=197,
    prefix=1,
    grid=(14, 14),
    width=384,
    groups=(GroupRange(name="routed", start=0, stop=8, hidden=1536, slots=25),),
    recipe=SoftRecipe(),
)
LAYOUT = {
    Address("images", "", "prediction"): Field((), torch.int32),
    Address("images", "", "thumbnail"): Field((112, 112, 3), torch.uint8),
    Address("sums", "06", "coactivation"): Field((8, 8), torch.float32, rows=False),
    Address("tables", "06", "profile"): Field((8,), torch.float32),
    Address("tables", "06", "pooled"): Field((384,), torch.float16),
    Address("full", "06", "logits"): Field((197, 200), torch.int16),
    Address("full", "06", "logits_scale"): Field((), torch.float32),
    Address("full", "06", "tokens"): Field((197, 384), torch.float16),
}
CARD = CaptureCard(level="full", full=1000, features="tokens", batch_size=16, shard=96)


def plan(card=CARD, images=5000):
    return plan_capture(card, (SPEC,), LAYOUT, images, classes=10)


def test_bytes_of_each_array():
    sizes = {(a.section, a.name): a.bytes for a in plan().arrays}
    assert sizes["full", "logits"] == 1000 * 197 * 200 * 2
    assert sizes["full", "tokens"] == 1000 * 197 * 384 * 2
    assert sizes["tables", "profile"] == 5000 * 8 * 4
    assert sizes["sums", "coactivation"] == 64 * 8
    assert sizes["sums", "class_mass"] == 80 * 8
    assert sizes["sums", "batch_load"] == 313 * 8 * 8
    assert sizes["images", "thumbnail"] == 1000 * 112 * 112 * 3
    assert plan().bytes == sum(sizes.values())
    files = {(a.section, a.name): a.files for a in plan().arrays}
    assert files["full", "logits"] == 1 + 11
    assert files["tables", "profile"] == 1 + 5


@pytest.mark.parametrize(
    ("budget", "full", "features", "level", "left_out"),
    [
        (10**9, 1000, "tokens", "full", ()),
        (130 * 10**6, 1000, "pooled", "full", ("token features",)),
        (
            60 * 10**6,
            480,
            "pooled",
            "full",
            ("token features", "full routing of 520 of 1000 images"),
        ),
        (
            4_100_000,
            0,
            "pooled",
            "profiles",
            ("token features", "full routing of all 1000 images"),
        ),
        (
            500_000,
            0,
            "none",
            "profiles",
            ("token features", "full routing of all 1000 images", "pooled features"),
        ),
        (
            50_000,
            0,
            "none",
            "totals",
            (
                "token features",
                "full routing of all 1000 images",
                "pooled features",
                "the per-image tables",
            ),
        ),
    ],
)
def test_a_budget_takes_the_dearest_away_first(budget, full, features, level, left_out):
    fitted = fit_budget(plan(), LAYOUT, budget, classes=10)
    assert fitted.bytes <= budget
    assert (fitted.card.full, fitted.card.features, fitted.card.level) == (full, features, level)
    assert fitted.left_out == left_out


def test_a_budget_below_the_totals_is_refused():
    with pytest.raises(Refusal, match=r"1\.0 KB does not hold even the totals"):
        fit_budget(plan(), LAYOUT, 1000, classes=10)


def test_shards_are_whole_batches_of_about_eight_megabytes():
    assert choose_shard(LAYOUT, 16) == 48  # 8 MiB / (197 · 384 · 2 bytes) = 55.4
    assert choose_shard(LAYOUT, 500) == 500
    tables = {a: f for a, f in LAYOUT.items() if a.section != "full"}
    assert choose_shard(tables, 16) == 1024


@pytest.mark.parametrize(
    ("text", "size"),
    [("20GB", 20 * 10**9), ("1.5 tb", 1500 * 10**9), ("1000", 1000), ("7k", 7000), ("3B", 3)],
)
def test_sizes_are_read(text, size):
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "GB", "1.2.3MB", "five", "-1GB"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(Refusal, match="is not a size"):
        parse_bytes(text)


def test_sizes_are_written():
    assert [readable(n) for n in (0, 999, 1500, 2.5e9, 3e13)] == [
        "0 B",
        "999 B",
        "1.5 KB",
        "2.5 GB",
        "30.0 TB",
    ]


def test_a_plan_is_json():
    import json

    written = json.loads(json.dumps(plan().to_dict()))
    assert written["seconds"] is None
    assert written["layers"]["06"]["router"] == "soft"
