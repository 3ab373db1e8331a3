"""What did the router do on single images?"""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from routelab.figures import Caption, ExpertMap, WeightMap, expert_overlay, weight_overlay
from routelab.records import Refusal, RouterSpec
from routelab.report.content import Block, Material, Picture, Section, Words

MOST_IMAGES = 6
MOST_PANELS = 11
SLOTS = 7
RULE = "chosen as the first image with full routing of each class, not for how it looks"


def section(material: Material) -> Section | None:
    """Expert maps of a few images in every layer, and slot maps of one."""
    store = material.store
    if store.full == 0:
        return None
    images = _choose(store.labels[: store.full])
    try:
        pixels = store.thumbnails(images)
    except Refusal as refusal:
        return Section("Example images", [Words(str(refusal))])
    blocks: list[Block] = [
        Picture(_experts(material, int(image), pixels[place])) for place, image in enumerate(images)
    ]
    soft = [spec for spec in store.layers if spec.soft and spec.grid]
    if soft:
        blocks.append(Picture(_slots(material, int(images[0]), pixels[0], soft[-1])))
    return Section("Example images", blocks, "Where do patches of one image go?")


def _choose(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first image of each of the first few classes, by row."""
    _, first = np.unique(labels, return_index=True)
    return np.sort(first[:MOST_IMAGES])


def _name(material: Material, image: int) -> str:
    store, classes = material.store, material.classes
    label, prediction = int(store.labels[image]), int(store.predictions[image])
    words = [str(store.ids[image])]
    if 0 <= label < len(classes):
        words.append(f"label {classes[label]}")
    if 0 <= prediction < len(classes):
        words.append(f"predicted {classes[prediction]}")
    return " · ".join(words)


def _prefix_names(spec: RouterSpec) -> list[str]:
    if spec.image_level:
        return ["whole image"]
    return ["class token", *(f"register {i + 1}" for i in range(spec.prefix - 1))]


def _experts(material: Material, image: int, pixels: NDArray[np.uint8]) -> go.Figure:
    specs = material.store.layers[:MOST_PANELS]
    left = len(material.store.layers) - len(specs)
    longest = max(specs, key=lambda spec: spec.prefix)
    return expert_overlay(
        pixels,
        [_expert_map(material, spec, image) for spec in specs],
        title=_name(material, image),
        caption=Caption(
            n=1,
            of="image",
            chance="1/E for each expert",
            notes=(RULE, f"{left} deeper layers are left out" if left else ""),
        ).noting(),
        prefix_names=_prefix_names(longest),
    )


def _expert_map(material: Material, spec: RouterSpec, image: int) -> ExpertMap:
    mass = np.asarray(material.store.mass(spec.key, [image]))[0]
    expert = np.where(mass.sum(axis=1) > 0, mass.argmax(axis=1), -1)
    hardness = mass.max(axis=1)
    name = f"layer {spec.key}"
    if spec.image_level or spec.grid is None:
        return ExpertMap(name, None, None, expert[:1], hardness[:1])
    patches = slice(spec.prefix, None)
    return ExpertMap(
        name,
        expert[patches].reshape(spec.grid),
        hardness[patches].reshape(spec.grid),
        expert[: spec.prefix],
        hardness[: spec.prefix],
    )


def _slots(
    material: Material, image: int, pixels: NDArray[np.uint8], spec: RouterSpec
) -> go.Figure:
    dispatch = np.asarray(material.store.dispatch(spec.key, [image]))[0]
    chosen = np.unique(np.linspace(0, spec.slots - 1, SLOTS).round().astype(int))
    maps = [
        WeightMap(
            f"slot {slot}, expert {spec.expert_of_slot[slot]}",
            dispatch[spec.prefix :, slot].reshape(spec.grid or (1, -1)),
            dispatch[: spec.prefix, slot],
        )
        for slot in chosen
    ]
    return weight_overlay(
        pixels,
        maps,
        unit="dispatch weight",
        title=f"What slots of layer {spec.key} look at · {material.store.ids[image]}",
        caption=Caption(
            n=1,
            of="image",
            chance=f"{1 / spec.tokens:.3g} a token (uniform)",
            notes=(f"{len(chosen)} of {spec.slots} slots, evenly spaced",),
        ),
        prefix_names=_prefix_names(spec),
    )
