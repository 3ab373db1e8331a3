"""A small MoE checkpoint, the dense one that it was copied from, and a store of it."""

import pytest

from routelab.cli import main
from routelab.models import build, load_checkpoint, save_checkpoint
from routelab.records import ExpertGroup, ModelCard, MoESpec, TopKRouting, Transform
from routelab.training import start_moe

SPEC = MoESpec(layers=(1, 2), router=TopKRouting(k=1), groups=(ExpertGroup(experts=4),))


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory):
    """`dense.safetensors` and `moe.safetensors` of a ViT for 8 × 8 digits; do not change them."""
    folder = tmp_path_factory.mktemp("checkpoints")
    arguments = {
        "img_size": 8,
        "patch_size": 4,
        "embed_dim": 24,
        "depth": 3,
        "num_heads": 3,
    }
    card = ModelCard(
        architecture="vit_tiny_patch16_224",
        arguments=arguments,
        classes=tuple("0123456789"),
        transform=Transform(size=8, channels=1, mean=(0.5,), std=(0.5,), interpolation="bilinear"),
    )
    save_checkpoint(folder / "dense.safetensors", build(card, seed=0), card)
    dense, card = load_checkpoint(folder / "dense.safetensors")
    save_checkpoint(folder / "moe.safetensors", *start_moe(dense, card, SPEC))
    return folder


@pytest.fixture(scope="session")
def store(checkpoints, tmp_path_factory):
    """A store of 64 digits; do not change it."""
    path = tmp_path_factory.mktemp("stores") / "moe.zarr"
    words = ["capture", str(checkpoints / "moe.safetensors"), "--data", "digits"]
    assert main([*words, "--out", str(path), "--limit", "64", "--device", "cpu"]) == 0
    return path


@pytest.fixture
def run(capsys):
    """Run a command line; its exit code, stdout and stderr."""

    def run_line(*words):
        capsys.readouterr()
        code = main([str(word) for word in words])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run_line
