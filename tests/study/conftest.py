"""A study small enough to run in tests: a ViT for 8 × 8 digits, three arms, two seeds."""

import pytest

from routelab.models import build, save_checkpoint
from routelab.records import ModelCard, Transform
from routelab.study import read_study

TEXT = """
name = "small"
says = "a test"
baseline = "dense"
seeds = [0, 1]

[source]
checkpoint = "{dense}"

[budget]
updates = 5

[run.data]
source = "digits"
validation = "test"
limit = 48
validation_limit = 40

[run.recipe]
batch_size = 16

[run.keep]
log_updates = 1
snapshots = 0

[arms.dense]

[arms.scratch]
scratch = true
[arms.scratch.moe]
layers = [1]
router = {{ kind = "soft" }}
groups = [{{ experts = 2, hidden_ratio = 2.0 }}]

[arms.recycled]
says = "experts recycled"
look = 30
recycle = {{ method = "importance" }}
[arms.recycled.moe]
layers = [1]
router = {{ kind = "topk", k = 1 }}
groups = [{{ experts = 2, hidden_ratio = 2.0 }}]
"""


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    """The study's file, and the dense checkpoint that it names."""
    arguments = {"img_size": 8, "patch_size": 4, "embed_dim": 24, "depth": 2, "num_heads": 3}
    card = ModelCard(
        architecture="vit_tiny_patch16_224",
        arguments=arguments,
        classes=tuple("0123456789"),
        transform=Transform(size=8, channels=1, mean=(0.5,), std=(0.5,), interpolation="bilinear"),
    )
    dense = tmp_path_factory.mktemp("dense") / "dense.safetensors"
    save_checkpoint(dense, build(card, seed=0), card)
    return TEXT.format(dense=dense)


@pytest.fixture
def study_of(text, tmp_path):
    """Read the study, with parts of its file replaced."""

    def read(*changes):
        changed = text
        for old, new in changes:
            assert old in changed
            changed = changed.replace(old, new)
        path = tmp_path / "study.toml"
        path.write_text(changed)
        return read_study(path)

    return read
