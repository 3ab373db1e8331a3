from collections.abc import Callable

import pytest

from routelab.store import CaptureStore, open_store
from routelab.testing import planted_store


@pytest.fixture(scope="session")
def planted(tmp_path_factory) -> Callable[..., CaptureStore]:
    """Planted stores by kind and options, each written once; tests save no Results in them."""
    made: dict[str, CaptureStore] = {}

    def plant(kind: str, **options) -> CaptureStore:
        key = repr((kind, sorted(options.items())))
        if key not in made:
            path = tmp_path_factory.mktemp("planted") / f"{kind}.zarr"
            made[key] = open_store(planted_store(path, kind, **options))
        return made[key]

    return plant
