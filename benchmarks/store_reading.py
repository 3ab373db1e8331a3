"""How fast does a store give one layer of all images, and one image of all layers?

    python -m benchmarks.store_reading [--images 512] [--layers 6]

Arms on the same files, page cache warm: RouteLab's reader, and the plain zarr API
(`zarr.open_array(...)[...]`) followed by the same arithmetic. Both give float32 logits, so what is
compared is the reading, not the softmax behind it.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import zarr

from benchmarks.measure import interleaved, markdown
from routelab.store import CaptureStore, open_store
from routelab.testing import planted_store

HEADER = ["read", "MB", "ours, ms CPU", "zarr API, ms CPU", "zarr / ours"]


def plain_logits(store: CaptureStore, layer: str, images: slice) -> np.ndarray:
    """Logits of some images through zarr alone."""
    group = zarr.open_group(store.path / "layers" / layer, mode="r")
    codes, scale = group["logits"], group["logits_scale"]
    assert isinstance(codes, zarr.Array)
    assert isinstance(scale, zarr.Array)
    stored, factor = np.asarray(codes[images]), np.asarray(scale[images])
    return stored.astype(np.float32) * factor[:, None, None]


def rows(store: CaptureStore, *, rounds: int) -> list[list[str]]:
    """One row a kind of reading, after checking that both arms give the same numbers."""
    layers = [spec.key for spec in store.layers]
    whole, middle = slice(0, store.full), slice(store.full // 2, store.full // 2 + 1)
    kinds = {
        "one layer of all images": [(layers[0], whole)],
        "one image of all layers": [(layer, middle) for layer in layers],
    }
    table = []
    for name, reads in kinds.items():
        for layer, images in reads:
            assert np.array_equal(store.logits(layer, images), plain_logits(store, layer, images))
        seconds = interleaved(
            {
                "ours": lambda reads=reads: [store.logits(*read) for read in reads],
                "zarr": lambda reads=reads: [plain_logits(store, *read) for read in reads],
            },
            rounds=rounds,
        )
        spec = store.layers[0]
        images_read = len(range(store.full)[reads[0][1]]) * len(reads)
        table.append(
            [
                name,
                f"{images_read * spec.tokens * spec.slots * 2 / 1e6:.2f}",
                f"{1e3 * seconds['ours']:.2f}",
                f"{1e3 * seconds['zarr']:.2f}",
                f"{seconds['zarr'] / seconds['ours']:.1f}×",
            ]
        )
    return table


def table(*, images: int = 512, layers: int = 6, rounds: int = 9) -> str:
    """The comparison as Markdown, on a store made for it."""
    with tempfile.TemporaryDirectory() as folder:
        path = planted_store(
            Path(folder) / "reading.zarr",
            "healthy",
            images=images,
            layers=layers,
            experts=64,
            grid=(14, 14),
        )
        return markdown(HEADER, rows(open_store(path), rounds=rounds))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    arguments = parser.parse_args()
    print(table(images=arguments.images, layers=arguments.layers))
