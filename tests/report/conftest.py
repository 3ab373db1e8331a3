"""Planted stores for the report's tests."""

import pytest

from routelab.store import open_store
from routelab.testing import planted_store
from tests.report.synthetic import results


def _open(path, kind, **options):
    return open_store(planted_store(path, kind, images=64, **options))


@pytest.fixture(scope="session")
def full_store(tmp_path_factory):
    """A soft store with every Result that the report knows."""
    store = _open(tmp_path_factory.mktemp("full") / "soft.zarr", "healthy", full=32)
    layers = [spec.key for spec in store.layers]
    made = results(layers, store.layers[0].experts, store.classes, store.committed)
    for result in made.values():
        store.save_result(result)
    return store


@pytest.fixture(scope="session")
def bare_store(tmp_path_factory):
    """A store that nothing was asked yet, of totals alone."""
    return _open(tmp_path_factory.mktemp("bare") / "totals.zarr", "healthy", level="totals")
