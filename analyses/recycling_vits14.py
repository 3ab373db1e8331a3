"""How much of a pretrained ViT-S/14 is left right after recycling, by method, width and router?

    python analyses/recycling_vits14.py --weights VIT.safetensors --data caltech40 --out TABLE.md

Blocks 6 to 11 become MoE layers of 16 core experts (768 of the 1,536 neurons each) and, where said,
32 universal experts (192), at the network's own width 384 and cut to 192; copies take the whole MLP
at 384, and 768 evenly spaced neurons of it at 192. Routers are fresh, nothing is trained.
Statistics come from 400 training images, the comparison from 80 test images, both equally of each
class; every number is the mean over three seeds, with their range where they differ. `caltech40`
holds `train/CLASS` and `test/CLASS`.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from pathlib import Path

import numpy as np

from routelab.data import Images, open_data
from routelab.records import ExpertGroup, MoESpec, RouterConfig, SpheroRouting, TopKRouting
from routelab.recycling import (
    ActivationStatistics,
    DenseSource,
    RecycleOptions,
    activation_statistics,
    balanced_sample,
    function_preservation,
    open_source,
    recycle,
)
from routelab.recycling.selection import METHODS, Method

ARCHITECTURE = "vit_small_patch14_dinov2"
SIZE = 98
LAYERS = tuple(range(6, 12))
SEEDS = (0, 1, 2)
CORE, UNIVERSAL = 16, 32
ROUTERS: dict[str, tuple[RouterConfig, int]] = {
    "token choice, top 1, core": (TopKRouting(k=1, renormalize=True), 0),
    "token choice, top 2, core + universal": (TopKRouting(k=2, renormalize=True), UNIVERSAL),
    "SpheroMoE, core + universal": (SpheroRouting(), UNIVERSAL),
}
"""Router, and universal experts beside the core ones."""

WIDTH = 384
WIDTHS = (WIDTH, 192)


def groups(method: Method, width: int, universal: int) -> tuple[ExpertGroup, ...]:
    """Experts of the same numbers of neurons at both widths; copies are all of one size."""
    if method == "copy":
        return (ExpertGroup(name="core", experts=CORE + universal, hidden_ratio=4.0),)
    core = ExpertGroup(name="core", experts=CORE, hidden_ratio=768 / width)
    if universal == 0:
        return (core,)
    return core, ExpertGroup(name="universal", experts=universal, hidden_ratio=192 / width)


def sample(source: DenseSource, data: Path, split: str, count: int) -> Images:
    """A class-balanced sample of one split."""
    images = open_data(data, source.card.transform, split=split)
    return images.subset(balanced_sample(images.labels, count, np.random.default_rng(0)))


def measured(
    source: DenseSource,
    statistics: ActivationStatistics,
    images: Images,
    router: RouterConfig,
    universal: int,
    options: RecycleOptions,
) -> list[float]:
    """CKA of blocks 6 and 11, error of block 11, mean error of the MoE layers alone."""
    experts = groups(options.method, options.width or WIDTH, universal)
    spec = MoESpec(layers=LAYERS, router=router, groups=experts)
    model = recycle(source, spec, options, statistics=statistics).model
    found = function_preservation(source, model, images, batch_size=40)
    alone = float(np.mean([layer.alone for layer in found if layer.moe]))
    return [found[6].cka, found[11].cka, found[11].error, alone]


def rows(source: DenseSource, statistics: ActivationStatistics, images: Images) -> list[str]:
    """The table, a line each for router, width and method."""
    lines = []
    for said, width, method in itertools.product(ROUTERS, WIDTHS, METHODS):
        router, universal = ROUTERS[said]
        began = time.perf_counter()
        narrow = None if width == WIDTH else width
        seeds = [
            measured(
                source,
                statistics,
                images,
                router,
                universal,
                RecycleOptions(method=method, width=narrow, seed=seed),
            )
            for seed in SEEDS
        ]
        cells = [cell(list(values)) for values in zip(*seeds, strict=True)]
        lines.append(f"| {said} | {width} | {method} | {' | '.join(cells)} |")
        print(lines[-1], f"{time.perf_counter() - began:.0f} s", file=sys.stderr)
    return lines


def cell(values: list[float]) -> str:
    """Mean, and the range over seeds where there is one."""
    low, high = min(values), max(values)
    spread = "" if high - low < 0.0005 else f" ({low:.3f} to {high:.3f})"
    return f"{np.mean(values):.3f}{spread}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    source = open_source(options.weights, architecture=ARCHITECTURE, size=SIZE)
    looked = sample(source, options.data, "train", 400)
    statistics = activation_statistics(
        source.model, looked, coactivation="firing", source=source.sha256
    )
    table = [
        "| router | width | method | CKA, block 6 | CKA, block 11 | error, block 11 "
        "| error of MoE layers alone |",
        "|---|---|---|---|---|---|---|",
        *rows(source, statistics, sample(source, options.data, "test", 80)),
    ]
    cost = statistics.cost
    seen = (
        f"Statistics with co-activation of {cost.images} images: forward {cost.forward:.0f} s, "
        f"bookkeeping {cost.bookkeeping:.0f} s."
    )
    options.out.write_text("\n".join([*table, "", seen, ""]))
    print("\n".join([*table, "", seen]))


if __name__ == "__main__":
    main()
