"""Small dense sources, and digits to show them; do not change them."""

import pytest

from routelab.data import open_data
from routelab.models import save_checkpoint
from tests.recycling.small import DIGITS, convnext_card, dense_source, vit_card


@pytest.fixture(scope="session")
def vit():
    return dense_source(vit_card())


@pytest.fixture(scope="session")
def wide_vit():
    return dense_source(vit_card(48, 6), seed=1)


@pytest.fixture(scope="session")
def convnext():
    return dense_source(convnext_card(), seed=2)


@pytest.fixture(scope="session")
def images():
    return open_data("digits", DIGITS, limit=48)


@pytest.fixture(scope="session")
def saved_vit(vit, tmp_path_factory):
    """Path of the small ViT as a RouteLab checkpoint."""
    path = tmp_path_factory.mktemp("dense") / "dense.safetensors"
    save_checkpoint(path, vit.model, vit.card)
    return path
