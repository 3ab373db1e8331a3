"""How does a dense checkpoint become a recycled one on disk? Look, choose, compare, write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from routelab.data import Images, open_data
from routelab.models import save_checkpoint
from routelab.records import ModelCard, MoESpec, Refusal, Transform
from routelab.recycling.cost import Cost, Stopwatch, peak_memory
from routelab.recycling.lineage import LineageRow, lineage_rows
from routelab.recycling.options import RecycleOptions
from routelab.recycling.preservation import LayerPreservation, function_preservation
from routelab.recycling.recycler import check_fit, recycle
from routelab.recycling.sampling import balanced_sample
from routelab.recycling.sources import DenseSource
from routelab.recycling.statistics import (
    ActivationStatistics,
    activation_statistics,
    data_fingerprint,
)
from routelab.recycling.statistics_file import load_statistics, save_statistics

LIMIT = 30_000
"""Images that are looked at, as MoE Jetpack is said to."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class Look:
    """Which images are looked at, and where what was seen is kept.

    `data` is a folder or a name that `open_data` takes, "" for none; `limit` images of it are
    sampled, equally from each class. `statistics` is a file that is read where it exists and
    written where it does not. `compare` images are shown to both models in the end.
    """

    data: str = ""
    split: str = ""
    limit: int | None = LIMIT
    statistics: Path | None = None
    compare: int = 64
    batch_size: int = 32


@dataclass(frozen=True, kw_only=True)
class RecycleReport:
    """What was made, from what, at what cost, and what is left of the dense function.

    `cost` is of the pass over images, None where none was needed; `reused` says that it was an
    earlier run's. `seconds` counts choosing and gathering, `peak_memory` (GiB) the
    whole run.
    """

    path: Path
    card: ModelCard
    lineage: list[LineageRow]
    preservation: list[LayerPreservation]
    cost: Cost | None
    reused: bool
    seconds: float
    peak_memory: float
    notes: tuple[str, ...]


def recycle_to(
    out: Path,
    body: DenseSource,
    spec: MoESpec,
    options: RecycleOptions,
    *,
    experts: DenseSource | None = None,
    look: Look | None = None,
    progress: Progress | None = None,
) -> RecycleReport:
    """Recycle dense sources into a checkpoint on disk.

    Raises
    ------
    Refusal
        Whatever does not fit, before any image is read; images that cannot be read; a full disk.
    """
    look, origin, watch = look or Look(), experts or body, Stopwatch()
    check_fit(body, spec, options, origin)
    statistics, reused = None, False
    if options.looks_at_images:
        statistics, reused = _statistics(origin, spec, options, look, progress)
    with watch.time("recycle"):
        model, card, notes = recycle(body, spec, options, experts=experts, statistics=statistics)
    preservation = []
    if look.data and look.compare:
        shown = _images(look, body.card.transform, look.compare, options.seed)
        preservation = function_preservation(body, model, shown, batch_size=look.batch_size)
    card = save_checkpoint(out, model, card)
    return RecycleReport(
        path=out,
        card=card,
        lineage=lineage_rows(model, card),
        preservation=preservation,
        cost=None if statistics is None else statistics.cost,
        reused=reused,
        seconds=watch["recycle"],
        peak_memory=peak_memory(),
        notes=notes,
    )


def _statistics(
    origin: DenseSource,
    spec: MoESpec,
    options: RecycleOptions,
    look: Look,
    progress: Progress | None,
) -> tuple[ActivationStatistics, bool]:
    """Statistics of the experts' source, and whether they were read from a file.

    A width that shrinks needs all layers, because they share its channels.
    """
    if not look.data:
        raise Refusal(
            f"method {options.method!r} looks at images to choose; give --images, "
            "or take random, uniform or copy"
        )
    images = _images(look, origin.card.transform, look.limit, options.seed)
    layers = sorted(spec.layers) if options.width is None else None
    if look.statistics is not None and look.statistics.exists():
        found = load_statistics(
            look.statistics,
            source=origin.sha256,
            data=data_fingerprint(images),
            layers=layers or (),
            coactivation=options.statistics_kind,
        )
        return found, True
    made = activation_statistics(
        origin.model,
        images,
        layers,
        coactivation=options.statistics_kind,
        batch_size=look.batch_size,
        source=origin.sha256,
        progress=progress,
    )
    if look.statistics is not None:
        save_statistics(look.statistics, made)
    return made, False


def _images(look: Look, transform: Transform, count: int | None, seed: int) -> Images:
    """A class-balanced sample."""
    images = open_data(look.data, transform, split=look.split)
    return images.subset(balanced_sample(images.labels, count, np.random.default_rng(seed)))
