"""Does a training that is killed at random moments and resumed end with an unbroken one's weights?

    python -m benchmarks.kill_training [--kills 5] [--seed 0]

Each run is a process of its own that gets SIGKILL at a moment drawn over the length of a whole run;
the next one goes on with `resume`. The recipe has everything that draws random numbers: router
noise, dropout, mixup, shifts, stochastic depth, and a running mean of the weights. Every weight of
the last and best checkpoints and every line of the log (times left out) is compared.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import tempfile
import time
from pathlib import Path

import torch

from benchmarks.kill_resume import in_child
from routelab.models import read_weights
from routelab.training import RunConfig, read_config, train_run

TIMES = ("images_per_second", "memory")


def configuration() -> RunConfig:
    """A small token-choice ViT on digits, three epochs, a state every five updates."""
    return read_config(
        values={
            "start": {
                "architecture": "vit_tiny_patch16_224",
                "arguments": {
                    "img_size": 16,
                    "patch_size": 4,
                    "embed_dim": 32,
                    "depth": 3,
                    "num_heads": 2,
                    "proj_drop_rate": 0.1,
                },
                "transform": {"size": 16, "channels": 1, "mean": [0.5], "std": [0.5]},
            },
            "moe": {
                "layers": [1, 2],
                "router": {"kind": "topk", "k": 2, "noise": 1.0, "capacity_factor": 1.25},
                "groups": [{"experts": 4}],
                "expert_dropout": 0.1,
            },
            "data": {"source": "digits", "limit": 600, "validation": "test"},
            "recipe": {
                "epochs": 3,
                "batch_size": 16,
                "accumulation": 2,
                "ema": 0.9,
                "drop_path": 0.1,
                "mixing": {"mixup": 0.8, "cutmix": 1.0},
                "augmentation": {"shift": 0.1},
                "auxiliary": {"balance": 0.01, "router_z": 0.001},
            },
            "keep": {"state_updates": 5, "log_updates": 1},
        }
    )


def work(out: Path) -> None:
    """The run, or what is left of it."""
    train_run(configuration(), out, resume=(out / "config.json").exists(), told=lambda _: None)


def differences(whole: Path, broken: Path) -> list[str]:
    """Names of weights and log lines that are not equal."""
    wrong = []
    for name in ("last", "best"):
        first, second = (read_weights(run / f"{name}.safetensors") for run in (whole, broken))
        wrong += [f"{name} {key}" for key in first if not torch.equal(first[key], second[key])]
    lines = [_lines(run / "log.jsonl") for run in (whole, broken)]
    if lines[0] != lines[1]:
        wrong.append("log.jsonl")
    return wrong


def _lines(log: Path) -> list[dict[str, object]]:
    """The log's lines without what depends on the clock."""
    records = [json.loads(line) for line in log.read_text().splitlines()]
    return [{k: v for k, v in record.items() if k not in TIMES} for record in records]


def kill_and_resume(kills: int, seed: int) -> str:
    """One line: how many kills hit, at which updates they left the run, and the verdict."""
    torch.set_num_threads(1)  # threads do not survive a fork
    moments = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        whole, broken = Path(folder) / "whole", Path(folder) / "broken"
        began = time.perf_counter()
        in_child(lambda: work(whole))
        duration = time.perf_counter() - began
        hits, reached, compared = 0, [], 0
        while hits < kills:
            hits += in_child(lambda: work(broken), kill_after=moments.uniform(0, duration))
            states = [int(p.name.split("-")[0]) for p in (broken / "states").glob("*.pt")]
            reached.append(max(states, default=0))
            if (broken / "log.jsonl").exists() and _finished(broken):
                _compare(whole, broken)
                compared += 1
                shutil.rmtree(broken)
        in_child(lambda: work(broken))
        _compare(whole, broken)
    return (
        f"{hits} kills, states left at updates {reached}, {compared + 1} finished runs compared: "
        "every weight and every line of the log equal"
    )


def _finished(run: Path) -> bool:
    """True if the run's last state is that of the last update."""
    epochs = [line for line in _lines(run / "log.jsonl") if line["kind"] == "epoch"]
    return len(epochs) == configuration().recipe.epochs


def _compare(whole: Path, broken: Path) -> None:
    in_child(lambda: work(broken))  # what was being written as it was killed
    wrong = differences(whole, broken)
    if wrong:
        raise SystemExit(f"{len(wrong)} differ: {', '.join(wrong[:5])}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print(kill_and_resume(arguments.kills, arguments.seed))
