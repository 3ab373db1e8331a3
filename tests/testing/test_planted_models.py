import numpy as np
import pytest

from routelab.analysis import ANALYSES
from routelab.capture import CaptureOptions, capture
from routelab.store import open_store
from routelab.testing import PLANTED, PLANTED_MODELS, planted_checkpoint, planted_images

ROUTERS = ("soft", "topk", "image")


@pytest.fixture(scope="module")
def captured(tmp_path_factory):
    """A real capture of a planted model, made once."""
    folder = tmp_path_factory.mktemp("planted models")
    images, made = planted_images(folder / "images"), {}

    def get(kind, router):
        if (kind, router) not in made:
            model = folder / f"{kind}-{router}.safetensors"
            planted_checkpoint(model, kind, router=router)
            store = folder / f"{kind}-{router}.zarr"
            capture(CaptureOptions(checkpoint=model, data=str(images), out=store, full=8))
            made[kind, router] = open_store(store)
        return made[kind, router]

    return get


def found(store, analysis, name):
    return ANALYSES[analysis].run(store, permutations=99).quantities[name]


def test_the_kinds_are_those_of_the_stores():
    assert set(PLANTED_MODELS) < set(PLANTED)


@pytest.mark.parametrize("router", ROUTERS)
def test_the_model_knows_the_classes(captured, router):
    store = captured("healthy", router)
    assert (store.predictions == store.labels).all()
    assert store.card.certificate.passed


@pytest.mark.parametrize("router", ROUTERS)
def test_class_is_found_in_the_planted_layer_alone(captured, router):
    p = found(captured("class_in_one_layer", router), "consistency", "p_max_statistic").value
    assert p[1] <= 0.01 + 1e-9
    assert p[[0, 2]].min() > 0.05
    contrast = found(captured("class_in_one_layer", router), "consistency", "contrast").value
    assert contrast[1] > 0.3 > 10 * np.abs(contrast[[0, 2]]).max()


@pytest.mark.parametrize("router", ROUTERS)
def test_the_dead_expert_is_found(captured, router):
    dead = found(captured("dead_expert", router), "load", "dead").value
    assert dead[:, -1].all()
    assert not dead[:, :-1].any()


@pytest.mark.parametrize("router", ROUTERS)
def test_the_collapse_is_found(captured, router):
    effective = found(captured("collapsed", router), "load", "effective_experts").value
    np.testing.assert_allclose(effective, 1, atol=1e-6)
