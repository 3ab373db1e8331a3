"""A run of a second: a tiny top-1 MoE ViT on a few digits, with all that is random switched on."""

import os
import signal

from routelab.models import read_weights
from routelab.training import read_config
from tests.processes import run_apart

START = {
    "architecture": "vit_tiny_patch16_224",
    "arguments": {
        "img_size": 8,
        "patch_size": 4,
        "embed_dim": 16,
        "depth": 2,
        "num_heads": 2,
        "mlp_ratio": 2.0,
        "proj_drop_rate": 0.1,
    },
    "transform": {
        "size": 8,
        "channels": 1,
        "mean": [0.5],
        "std": [0.5],
        "interpolation": "bilinear",
    },
}
MOE = {
    "layers": [1],
    "router": {"kind": "topk", "k": 1, "noise": 1.0},
    "groups": [{"experts": 3, "hidden_ratio": 1.0}],
}


def small_config(*settings, moe=MOE, **recipe):
    values = {
        "start": START,
        "moe": moe,
        "data": {"source": "digits", "limit": 60, "validation": "test"},
        "recipe": {
            "epochs": 2,
            "batch_size": 8,
            "ema": 0.8,
            "mixing": {"mixup": 0.8, "cutmix": 1.0},
            "augmentation": {"shift": 0.1},
            "auxiliary": {"balance": 0.01},
            "drop_path": 0.1,
            **recipe,
        },
        "keep": {"state_updates": 3, "log_updates": 1, "probe": 20},
    }
    return read_config(values=values, settings=settings)


def in_child(work):
    """Run the work in a process of its own; True if it was killed."""
    (code,) = run_apart(work)
    assert code in (0, -signal.SIGKILL)
    return code != 0


def killed_at_sync(number, work):
    """Run the work in a child that is killed as it is about to flush its n-th file to disk."""

    def limited():
        fsync, calls = os.fsync, []

        def counted(handle):
            calls.append(handle)
            if len(calls) == number:
                os.kill(os.getpid(), signal.SIGKILL)
            fsync(handle)

        os.fsync = counted
        work()

    return in_child(limited)


def weights_of(out):
    return {name: read_weights(out / f"{name}.safetensors") for name in ("last", "best")}
