"""A capture of ten images in five batches, small enough to be killed at every step."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from routelab.records import (
    CaptureCard,
    Certificate,
    Check,
    DataCard,
    GroupRange,
    ModelCard,
    RouterSpec,
    SoftRecipe,
    StoreCard,
    Transform,
)
from routelab.store import Batch, Column, StoreWriter
from routelab.store.recipe import combine_weights, quantize
from routelab.store.routing import sum_slots

IMAGES, FULL, BATCH, SHARD = 10, 6, 2, 4
TOKENS, PREFIX = 5, 1
IDS = [f"ordner/бильд {number} 図{'é' * number}.png" for number in range(IMAGES)]
LABELS = np.array([0, 1, 2, 0, 1, 2, -1, 0, 1, 2])
CERTIFICATE = Certificate(checks=(Check(name="seen", passed=True, value=1.0),))


def spec(depth=6):
    groups = (
        GroupRange(name="core", start=0, stop=2, hidden=8, slots=2),
        GroupRange(name="universal", start=2, stop=3, hidden=2),
    )
    return RouterSpec(
        layer=f"blocks.{depth}.mlp",
        depth=depth,
        kind="soft",
        tokens=TOKENS,
        prefix=PREFIX,
        grid=(2, 2),
        width=4,
        groups=groups,
        recipe=SoftRecipe(dispatch_temperature=0.5, combine_temperature=2.0),
    )


def card(*, layers=(6, 7), **capture):
    settings = {"level": "full", "full": FULL, "batch_size": BATCH, "shard": SHARD}
    return StoreCard(
        format=0,
        model=ModelCard(architecture="tiny", transform=Transform(size=8), classes=("a", "b", "c")),
        data=DataCard(source="here", images=IMAGES, classes=("a", "b", "c")),
        capture=CaptureCard(**settings | capture),
        layers=tuple(spec(depth) for depth in layers),
    )


@lru_cache
def batch(number):
    """Batch `number`, always the same bytes."""
    rng = np.random.default_rng(number)
    start = number * BATCH
    parts = [_layer(rng, depth, start) for depth in (6, 7)]
    thumbnail = rng.integers(0, 255, (BATCH, 4, 4, 3), dtype=np.uint8)
    return Batch(
        images={
            "prediction": np.arange(start, start + BATCH) % 3,
            "probability": rng.random(BATCH, dtype=np.float32),
            "thumbnail": thumbnail,
        },
        tables={key: tables for key, tables, *_ in parts},
        full={key: full for key, _, full, _ in parts},
        sums={key: {"class_mass": sums, "tokens": np.float64(BATCH)} for key, *_, sums in parts},
        batch_rows={key: {"batch_load": tables["hits"].sum(0)} for key, tables, *_ in parts},
    )


def _layer(rng, depth, start):
    layer = spec(depth)
    codes, scale = quantize(rng.normal(size=(BATCH, TOKENS, layer.slots)).astype(np.float32))
    logits = codes * scale[:, None, None]
    mass = sum_slots(combine_weights(logits.astype(np.float32), layer.recipe), layer)
    profile = mass[:, PREFIX:].mean(axis=1)
    top = mass[:, PREFIX:].argmax(axis=2)
    tables = {
        "profile": profile,
        "prefix_mass": mass[:, :PREFIX],
        "hits": (top[..., None] == np.arange(3)).sum(axis=1).astype(np.int32),
        "pooled": rng.normal(size=(BATCH, 4)).astype(np.float16),
    }
    sums = np.zeros((3, 3))
    labels = LABELS[start : start + BATCH]
    np.add.at(sums, labels[labels >= 0], profile[labels >= 0].astype(np.float64))
    return layer.key, tables, {"logits": codes, "logits_scale": scale}, sums


def create(path, given=None, **options):
    """An empty store for the batches; level and full images as in the card."""
    given = given or card()
    first = batch(0)
    keys = [layer.key for layer in given.layers]
    detailed = given.capture.level != "totals"
    image_columns = dict(first.images)
    if not given.capture.full:
        del image_columns["thumbnail"]
    settings = {
        "images": IMAGES,
        "ids": IDS,
        "labels": LABELS,
        "tables": {key: columns(first.tables[key]) for key in keys} if detailed else {},
        "full": {key: columns(first.full[key]) for key in keys} if given.capture.full else {},
        "image_columns": columns(image_columns),
        "sums": {key: {"class_mass": (3, 3), "tokens": ()} for key in keys},
        "batch_rows": {key: {"batch_load": (3,)} for key in keys},
    }
    return StoreWriter.create(path, given, **settings | options)


def columns(arrays):
    return {name: Column(rows.shape[1:], rows.dtype.name) for name, rows in arrays.items()}


def append_rest(writer, *, until=IMAGES):
    for number in range(writer.committed // BATCH, until // BATCH):
        writer.append(batch(number))


def complete(path: Path, given=None, **options):
    """A finished store."""
    with create(path, given, **options) as writer:
        append_rest(writer)
        writer.finish(CERTIFICATE, {"seconds": 1.5})
    return path


def resume(path, given=None):
    """Go on where the store stopped, to the end."""
    with StoreWriter.resume(path, given or card()) as writer:
        append_rest(writer)
        writer.finish(CERTIFICATE, {"seconds": 2.5})


def without(given, table):
    """A batch that lacks one table."""
    tables = {key: {n: v for n, v in t.items() if n != table} for key, t in given.tables.items()}
    return replace(given, tables=tables)
