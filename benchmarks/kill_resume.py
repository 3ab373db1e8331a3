"""Does a capture that is killed at random moments and resumed end with an unbroken one's bytes?

    python -m benchmarks.kill_resume [--kills 20] [--seed 0] [--images 400]

Each run is a process of its own that gets SIGKILL at a moment drawn over the length of a whole run;
the next one goes on with `resume`. Every file of the two stores is compared, times left out.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from routelab.capture import CaptureOptions, capture
from routelab.models import build, save_checkpoint
from routelab.records import ExpertGroup, ModelCard, MoESpec, SoftRouting, Transform
from routelab.store import fingerprint, open_store, writer

DIGITS = tuple(str(digit) for digit in range(10))


def make_checkpoint(folder: Path) -> Path:
    """A small Soft MoE ViT with random weights."""
    card = ModelCard(
        architecture="vit_tiny_patch16_224",
        arguments={"img_size": 32, "patch_size": 8, "depth": 3, "embed_dim": 48, "num_heads": 3},
        spec=MoESpec(
            layers=(1, 2), router=SoftRouting(), groups=(ExpertGroup(experts=4, slots=4),)
        ),
        classes=DIGITS,
        transform=Transform(size=32, interpolation="nearest"),
    )
    path = folder / "soft.safetensors"
    save_checkpoint(path, build(card, seed=0), card)
    return path


def run(checkpoint: Path, out: Path, images: int, *, dry_run: bool = False) -> None:
    """One capture, or what is left of it."""
    capture(
        CaptureOptions(
            checkpoint=checkpoint,
            data="digits",
            out=out,
            limit=images,
            batch_size=8,
            shard=16,
            full=images // 2,
            features="tokens",
            verify=True,
            resume=out.exists(),
            dry_run=dry_run,
        )
    )


def in_child(work: Callable[[], None], *, kill_after: float | None = None) -> bool:
    """Run the work in a forked process; True if it was killed before it had ended."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", flush=True)
            os._exit(1)
        os._exit(0)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise SystemExit("a capture failed")
    return os.WIFSIGNALED(status)


def kill_and_resume(kills: int, seed: int, images: int) -> str:
    """One line: how many kills hit, how often a commit had been reached, and the verdict."""
    torch.set_num_threads(1)  # threads do not survive a fork
    writer.COMMIT_SECONDS = 0.0
    moments = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = make_checkpoint(Path(folder))
        whole, broken = Path(folder) / "whole.zarr", Path(folder) / "broken.zarr"
        run(checkpoint, whole, images, dry_run=True)  # imports what the children share
        began = time.perf_counter()
        in_child(lambda: run(checkpoint, whole, images))
        duration = time.perf_counter() - began
        hits, reached = 0, []
        while hits < kills:
            if broken.exists() and open_store(broken).card.complete:
                in_child(lambda: run(checkpoint, broken, images))
                _assert_equal(whole, broken)
                shutil.rmtree(broken)
            hits += in_child(
                lambda: run(checkpoint, broken, images), kill_after=moments.uniform(0, duration)
            )
            reached.append(open_store(broken).committed if broken.exists() else 0)
        in_child(lambda: run(checkpoint, broken, images))
        _assert_equal(whole, broken)
    return f"{hits} kills, at {sorted(reached)} committed images: every file equal"


def _assert_equal(whole: Path, broken: Path) -> None:
    expected, found = fingerprint(whole), fingerprint(broken)
    differing = sorted(
        name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name)
    )
    if differing:
        raise SystemExit(f"{len(differing)} files differ: {', '.join(differing[:5])}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--images", type=int, default=400)
    arguments = parser.parse_args()
    print(kill_and_resume(arguments.kills, arguments.seed, arguments.images))
