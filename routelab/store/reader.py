"""What does a store hold? Rows and layers of it as NumPy arrays, committed images only."""

from __future__ import annotations

import difflib
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from routelab.records import Refusal, Result, RouterSpec, StoreCard
from routelab.store import results, routing
from routelab.store.arrays import Rows, read_rows, select_rows
from routelab.store.layout import (
    LINEAGE,
    METADATA,
    layer_folder,
    read_array,
    read_attributes,
    read_card,
    read_ids,
)
from routelab.store.levels import require_level
from routelab.store.shards import Sharding, read_sharding
from routelab.store.sums import read_sums

FULL_ARRAYS = frozenset(
    {"logits", "logits_scale", "dispatch", "combine", "expert", "gate", "slot", "probs", "tokens"}
)


def open_store(path: str | Path) -> CaptureStore:
    """Open a store for reading; one that is still being written shows its committed images.

    Raises
    ------
    Refusal
        Nothing is at `path`, it is not a RouteLab store, or one of another format version.
    """
    return CaptureStore(Path(path))


class CaptureStore:
    """A captured routing: labels, per-image tables, sums, and full routing of the first images.

    A layer is named by its key ("06"), its depth (6) or its module path ("blocks.6.mlp").

    Attributes
    ----------
    path
        The store's folder.
    card
        Model, data, capture and certificate.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.card: StoreCard = read_card(path)

    def __repr__(self) -> str:
        capture = self.card.capture
        return (
            f"CaptureStore({str(self.path)!r}: {self.committed} images, "
            f"{len(self.layers)} layers, level {capture.level})"
        )

    @property
    def committed(self) -> int:
        """n, the images that are safely stored."""
        return self.card.committed

    @property
    def full(self) -> int:
        """The first images, whose full routing is stored."""
        return min(self.card.capture.full, self.committed)

    @property
    def layers(self) -> tuple[RouterSpec, ...]:
        """The captured layers in depth order."""
        return self.card.layers

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names; the data's, or else the model's."""
        return self.card.data.classes or self.card.model.classes

    @cached_property
    def timing(self) -> dict[str, Any]:
        """Times and speeds of the capture; empty until it is complete."""
        try:
            return read_attributes(self.path / "timing")
        except FileNotFoundError:
            return {}

    def lineage(self) -> dict[str, NDArray[np.int32]]:
        """Indices of what a recycled model was made of, by name; empty for any other.

        `layer_06_neurons_core` (E, h) are the hidden neurons of the source's MLP that each expert
        of the group has; `layer_06_channels` (c,) the channels, where the width shrank. The card's
        `model.lineage` names the sources.
        """
        folders = sorted((self.path / LINEAGE).glob(f"*/{METADATA}"))
        return {folder.parent.name: read_array(folder.parent) for folder in folders}

    def spec(self, layer: str | int) -> RouterSpec:
        """The layer of this key, depth or module path.

        Raises
        ------
        Refusal
            There is none, or the capture left it out.
        """
        name = f"{layer:02d}" if isinstance(layer, int) else layer
        for spec in self.layers:
            if name in (spec.key, spec.layer):
                return spec
        keys = [spec.key for spec in self.layers]
        if name in self.card.refused:
            raise Refusal(f"layer {name} was left out of {self.path}: {self.card.refused[name]}")
        near = difflib.get_close_matches(name, [*keys, *(s.layer for s in self.layers)], 1, 0.5)
        hint = f"did you mean {near[0]}? " if near else ""
        raise Refusal(f"{self.path} has no layer {name!r}; {hint}its layers are {', '.join(keys)}")

    # Images

    @cached_property
    def labels(self) -> NDArray[np.int64]:
        """Class of each image, (n,); -1 where there is none."""
        return self._images("label").astype(np.int64)

    @cached_property
    def predictions(self) -> NDArray[np.int64]:
        """The model's class of each image, (n,)."""
        return self._images("prediction").astype(np.int64)

    @cached_property
    def probability(self) -> NDArray[np.float32]:
        """Probability that the model gives to the image's label, (n,)."""
        return self._images("probability")

    @cached_property
    def ids(self) -> list[str]:
        """Id of each image, (n,)."""
        return read_ids(self.path / "images" / "id", self.committed)

    def thumbnails(self, images: Rows = None) -> NDArray[np.uint8]:
        """Small pictures of the images with full routing, (b, h, w, 3)."""
        return self._rows(self.path / "images" / "thumbnail", images, self.full)

    # One row an image

    def tables(self, layer: str | int) -> tuple[str, ...]:
        """Names of the layer's per-image tables."""
        return tuple(name for name in self._names(layer) if name not in FULL_ARRAYS)

    def table(self, layer: str | int, name: str, images: Rows = None) -> NDArray[Any]:
        """A per-image table of one layer, (n, …).

        Raises
        ------
        Refusal
            The layer has no such table.
        """
        return self._rows(layer_folder(self.path, self.spec(layer).key) / name, images)

    def profile(
        self, layer: str | int, tokens: Literal["patches", "all", "prefix"] = "patches"
    ) -> NDArray[np.float64]:
        """Image profile, (n, E): mean mass that an image's tokens give to each expert.

        Over the patch tokens, all tokens, or class and register tokens. Image-level routing has one
        decision for all tokens, and so one profile.

        Raises
        ------
        Refusal
            The layer has no such tokens, or the store no profiles.
        """
        spec = self.spec(layer)
        patches: NDArray[np.float64] = self.table(layer, "profile").astype(np.float64)
        if tokens == "patches" or spec.image_level:
            return patches
        if spec.prefix == 0:
            if tokens == "prefix":
                raise Refusal(f"layer {spec.key} routes no class or register tokens")
            return patches
        prefix = self.table(layer, "prefix_mass").astype(np.float64)
        if tokens == "prefix":
            return prefix.mean(axis=1)
        share = (spec.tokens - spec.prefix) / spec.tokens
        return patches * share + prefix.sum(axis=1) / spec.tokens

    # Sums over images

    def totals(self, layer: str | int) -> tuple[str, ...]:
        """Names of the layer's sums over images."""
        return tuple(sorted(self._totals[self.spec(layer).key]))

    def total(self, layer: str | int, name: str) -> NDArray[np.float64]:
        """A sum over the committed images, float64.

        Raises
        ------
        Refusal
            The layer has no such sum.
        """
        sums = self._totals[self.spec(layer).key]
        if name not in sums:
            raise self._absent(f"sum {name!r}", layer, sorted(sums))
        return sums[name]

    # Full routing

    def logits(self, layer: str | int, images: Rows = None) -> NDArray[np.float32]:
        """Router logits, (b, N, S) soft; Refusal where the layer stores weights or choices."""
        return routing.logits(self.full_array, self.spec(layer), images)

    def dispatch(self, layer: str | int, images: Rows = None) -> NDArray[np.float32]:
        """Dispatch weights of a soft layer, (b, N, S); columns sum to 1 over tokens."""
        return routing.dispatch(self.full_array, self.spec(layer), images)

    def combine(self, layer: str | int, images: Rows = None) -> NDArray[np.float32]:
        """Combine weights of a soft layer, (b, N, S); rows sum to 1 over slots."""
        return routing.combine(self.full_array, self.spec(layer), images)

    def choices(self, layer: str | int, images: Rows = None) -> dict[str, NDArray[Any]]:
        """expert, gate, slot (b, N, k) and probs (b, N, E) of a sparse layer."""
        return routing.choices(self.full_array, self.spec(layer), images)

    def mass(self, layer: str | int, images: Rows = None) -> NDArray[np.float32]:
        """Token→expert mass A, (b, N, E): what each token gives to each expert."""
        return routing.mass(self.full_array, self.spec(layer), images)

    def dispatch_mass(self, layer: str | int, images: Rows = None) -> NDArray[np.float32]:
        """Expert→token mass D, (b, N, E): what each expert looks at."""
        return routing.dispatch_mass(self.full_array, self.spec(layer), images)

    def tokens(self, layer: str | int, images: Rows = None) -> NDArray[np.float16]:
        """Tokens that enter the layer, (b, T, d) float16; Refusal unless they were captured."""
        return self.full_array(layer, "tokens", images)

    def full_array(self, layer: str | int, name: str, images: Rows = None) -> NDArray[Any]:
        """A full array of one layer as it is stored, (b, …), of the first `full` images."""
        require_level(self, "full", f"{name} of layer {self.spec(layer).key}")
        folder = layer_folder(self.path, self.spec(layer).key) / name
        return self._rows(folder, images, self.full)

    # Results

    def results(self) -> tuple[str, ...]:
        """Names of the saved Results."""
        return results.names(self.path)

    def result(self, name: str) -> Result:
        """A saved Result; Refusal where there is none of this name."""
        return results.load(self.path, name)

    def save_result(self, result: Result) -> None:
        """Save a Result, replacing one of the same name in one step."""
        results.save(self.path, result)

    # Reading

    @cached_property
    def _shardings(self) -> dict[Path, Sharding]:
        return {}

    @cached_property
    def _totals(self) -> dict[str, dict[str, NDArray[np.float64]]]:
        return read_sums(self.path, self.card)

    def _names(self, layer: str | int) -> list[str]:
        folder = layer_folder(self.path, self.spec(layer).key)
        return sorted(path.parent.name for path in folder.glob(f"*/{METADATA}"))

    def _images(self, name: str) -> NDArray[Any]:
        return self._rows(self.path / "images" / name, None)

    def _rows(self, folder: Path, images: Rows, count: int | None = None) -> NDArray[Any]:
        """Committed rows of one array; `count` of them where it is not one row an image."""
        if folder not in self._shardings:
            if not (folder / METADATA).exists():
                raise self._absent_array(folder)
            self._shardings[folder] = read_sharding(folder)
        rows = select_rows(images, self.committed if count is None else count, folder.name)
        return read_rows(folder, self._shardings[folder], rows)

    def _absent_array(self, folder: Path) -> Refusal:
        layer, name = folder.parent.name, folder.name
        if folder.parent.name == "images":
            return Refusal(f"{self.path} holds no {name} of its images")
        if self.card.capture.level == "totals":
            return Refusal(
                f"{self.path} holds totals only, no {name} of single images; "
                "capture it again with more detail"
            )
        return self._absent(repr(name), layer, self._names(layer))

    def _absent(self, what: str, layer: str | int, there: list[str]) -> Refusal:
        key = self.spec(layer).key
        return Refusal(f"layer {key} of {self.path} has no {what}; it has {', '.join(there)}")
