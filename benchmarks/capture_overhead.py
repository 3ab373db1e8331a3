"""What does recording cost beside the plain forward pass, and does memory grow with the images?

    python -m benchmarks.capture_overhead [--rounds 12] [--batches 2]

Soft MoE ViT-S/16 at 224 px, 12 MoE layers of 8 experts × 25 slots, batch 16, random weights. An arm
is the loop of `routelab capture` over the same batches in memory: forward pass, reductions, ring,
writer thread and its files, to the commit. Decoding images is in none of them. The seconds are CPU
time of the whole process, all threads together: what a machine without an idle core would see.
Every run has a plain pass right beside it, and the ratio is the median over such pairs; the first
row is the plain pass against itself, and shows how well this machine can tell.
In all arms, the plain one too, the C library keeps freed memory (`keep_freed_memory`).
"""

from __future__ import annotations

import argparse
import gc
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.measure import markdown
from routelab.capture.forward import Forward
from routelab.capture.interrupt import Interruption
from routelab.capture.machine import find_machine
from routelab.capture.options import CaptureOptions
from routelab.capture.passes import Passes
from routelab.capture.preparation import look, make_plan, store_card
from routelab.capture.reporter import Reporter
from routelab.capture.session import Session, capture_card
from routelab.data import Batch
from routelab.models import build, keep_freed_memory, moe_layers, router_specs
from routelab.records import DataCard, ExpertGroup, ModelCard, MoESpec, SoftRouting, Transform

HEADER = [
    "arm",
    "s CPU a batch",
    "of them system",
    "MB a batch",
    "ratio to plain",
    "middle half of the pairs",
]

ARMS = {
    "totals": {"level": "totals"},
    "profiles": {"level": "profiles"},
    "full (int16 logits)": {"level": "full", "full": "all"},
    "full, all token features": {"level": "full", "full": "all", "features": "tokens"},
}


@dataclass(frozen=True)
class Ready:
    """Images of noise that are there as soon as they are asked for; a few batches, repeated."""

    images: int
    transform: Transform
    classes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return self.images

    @property
    def card(self) -> DataCard:
        """A card that names no file."""
        return DataCard(source="noise", images=self.images)

    @property
    def ids(self) -> list[str]:
        """Numbers."""
        return [f"{number:06d}" for number in range(self.images)]

    @property
    def labels(self) -> NDArray[np.int64]:
        """None."""
        return np.full(self.images, -1, np.int64)

    @cached_property
    def _pixels(self) -> torch.Tensor:
        side = self.transform.size
        return torch.randn(64, 3, side, side, generator=torch.Generator().manual_seed(0))

    def batches(self, batch_size: int, *, start: int = 0) -> Iterator[Batch]:
        """Batches in order."""
        for first in range(start, self.images, batch_size):
            rows = np.arange(first, min(first + batch_size, self.images))
            labels = torch.full((len(rows),), -1)
            yield Batch(self._pixels[torch.from_numpy(rows % 64)], labels, rows)


def small() -> ModelCard:
    """ViT-S/16, every MLP a Soft MoE of 8 experts with 25 slots."""
    return ModelCard(
        architecture="vit_small_patch16_224",
        spec=MoESpec(
            layers=tuple(range(12)),
            router=SoftRouting(),
            groups=(ExpertGroup(experts=8, slots=25),),
        ),
        classes=tuple(f"class {number}" for number in range(1000)),
        transform=Transform(size=224),
    )


def tiny() -> ModelCard:
    """A ViT that passes 20,000 images in seconds."""
    return ModelCard(
        architecture="vit_tiny_patch16_224",
        arguments={"img_size": 32, "patch_size": 8, "depth": 2, "embed_dim": 48, "num_heads": 3},
        spec=MoESpec(
            layers=(0, 1), router=SoftRouting(), groups=(ExpertGroup(experts=4, slots=4),)
        ),
        classes=("a", "b"),
        transform=Transform(size=32),
    )


def session(card: ModelCard, images: int, options: CaptureOptions) -> Session:
    """A session over ready images, with a fresh model."""
    model = build(card, seed=0)
    forward = Forward(model, moe_layers(model), find_machine("cpu", "float32"), card.transform)
    return Session(
        forward,
        card,
        Ready(images, card.transform),  # type: ignore[arg-type]
        tuple(router_specs(model, card).values()),
        capture_card(options, images, "cpu"),
    )


def options(folder: Path, **changes: object) -> CaptureOptions:
    """Options of a capture into a folder; checkpoint and data stand for what is in memory."""
    usual = {
        "checkpoint": Path("memory"),
        "data": "noise",
        "batch_size": 16,
        "out": folder / "s.zarr",
    }
    return CaptureOptions.model_validate(usual | changes)


def prepared(base: Session, made: CaptureOptions) -> Callable[[], Callable[[], object]]:
    """Makes an empty store and returns the capture into it, as far as it is timed."""
    card = capture_card(made, len(base.data), "cpu")
    chosen = Session(base.forward, base.model_card, base.data, base.specs, card)
    seen = look(chosen)
    passes = Passes(
        chosen, store_card(chosen, seen, make_plan(chosen, seen, made)), seen.layout, Reporter()
    )

    def create() -> Callable[[], object]:
        writer = passes.create(made.out, overwrite=True)

        def run() -> None:
            with writer:
                passes.run(writer, Interruption())
                writer.commit()

        return run

    return create


def plain(base: Session, batch_size: int) -> Callable[[], Callable[[], object]]:
    """The forward passes alone."""

    def run() -> None:
        for batch in base.data.batches(batch_size):
            base.forward(batch.pixels)

    return lambda: run


def cpu_seconds() -> tuple[float, float]:
    """User and system time of this process so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime, usage.ru_stime


Arm = Callable[[], Callable[[], object]]


def spent(arm: Arm) -> tuple[float, float]:
    """CPU seconds of one run of an arm, and the system time in them."""
    run = arm()
    gc.collect()
    user, system = cpu_seconds()
    run()
    user_after, system_after = cpu_seconds()
    return user_after + system_after - user - system, system_after - system


def paired(arm: Arm, reference: Arm, rounds: int) -> NDArray[np.float64]:
    """Seconds of the arm, its system time, and the plain pass beside it, (rounds, 3).

    The two run next to each other, now one first and now the other: a machine that slows down for a
    minute slows down both.
    """
    rows = []
    for number in range(rounds):
        if number % 2:
            beside, (seconds, system) = spent(reference)[0], spent(arm)
        else:
            (seconds, system), beside = spent(arm), spent(reference)[0]
        rows.append((seconds, system, beside))
    return np.array(rows)


def overhead(rounds: int, batches: int) -> str:
    """The table of ratios: median of the pairs, and the quartiles."""
    torch.set_num_threads(1)
    keep_freed_memory()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder, images = Path(name), 16 * batches
        base = session(small(), images, options(folder))
        reference = plain(base, 16)
        spent(reference)
        for label, changes in {"plain forward": None, **ARMS}.items():
            stored, arm = 0.0, reference
            if changes is not None:
                made = options(folder / label.split(" ")[0], shard=16 * min(batches, 3), **changes)
                arm = prepared(base, made)
                spent(arm)
                stored = sum(f.stat().st_size for f in made.out.rglob("c.*")) / batches / 1e6
            times = paired(arm, reference, rounds)
            seconds, system, _ = np.median(times, axis=0) / batches
            low, middle, high = np.quantile(times[:, 0] / times[:, 2], [0.25, 0.5, 0.75])
            rows.append(
                [label, f"{seconds:.3f}", f"{system:.3f}", f"{stored:.1f}", f"{middle:.3f}×",
                 f"{low:.3f} to {high:.3f}"]
            )  # fmt: skip
    return markdown(HEADER, rows)


def peak_memory(images: int) -> float:
    """Peak resident MB of a process that captures so many images with a tiny model."""
    command = [sys.executable, "-m", "benchmarks.capture_overhead", "--memory-of", str(images)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout)


def capture_and_measure(images: int) -> float:
    """Peak resident MB of this process after a capture."""
    torch.set_num_threads(1)
    keep_freed_memory()
    with tempfile.TemporaryDirectory() as name:
        made = options(Path(name), batch_size=64, full=1000, features="tokens")
        base = session(tiny(), images, made)
        prepared(base, made)()()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def memory() -> str:
    """The table of peak memory."""
    few, many = peak_memory(2_000), peak_memory(20_000)
    rows = [
        ["2,000", f"{few:.1f}", ""],
        ["20,000", f"{many:.1f}", f"{100 * (many / few - 1):+.1f} %"],
    ]
    return markdown(["images captured (small model, 1,000 in full)", "peak MB", "difference"], rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--batches", type=int, default=2)
    parser.add_argument("--memory-of", type=int, default=0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory_of:
        print(capture_and_measure(arguments.memory_of))
    else:
        print(overhead(arguments.rounds, arguments.batches) + "\n\n" + memory())
