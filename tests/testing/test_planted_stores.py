import numpy as np
import pytest

from routelab.records import Refusal
from routelab.store import fingerprint, open_store
from routelab.testing import PLANTED, planted_layer, planted_store

ROUTERS = ("soft", "sphero", "topk", "image")


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """A store of a kind, made once."""
    folder, made = tmp_path_factory.mktemp("planted"), {}

    def store(kind, router="soft"):
        if (kind, router) not in made:
            path = planted_store(folder / f"{kind}-{router}.zarr", kind, router=router)
            made[kind, router] = open_store(path)
        return made[kind, router]

    return store


def class_share(store, layer):
    """Share of the variance of image profiles that lies between classes."""
    profile, labels = store.profile(layer), store.labels
    means = np.array([profile[labels == label].mean(axis=0) for label in np.unique(labels)])
    return means.var(axis=0).sum() / profile.var(axis=0).sum()


@pytest.mark.parametrize("router", ROUTERS)
def test_class_decides_more_in_each_deeper_layer_of_a_healthy_store(planted, router):
    store = planted("healthy", router)
    first, middle, last = (class_share(store, layer) for layer in ("06", "07", "08"))
    assert first < middle < last
    assert last > 0.5
    for layer in ("06", "07", "08"):
        assert store.total(layer, "load").min() > 0.1 * store.total(layer, "load").sum() / 4


@pytest.mark.parametrize("router", ROUTERS)
def test_no_token_goes_to_a_dead_expert(planted, router):
    store = planted("dead_expert", router)
    for layer in ("06", "07", "08"):
        load = store.total(layer, "load")
        assert load[-1] == 0
        assert load[:-1].min() > 0
        assert store.profile(layer)[:, -1].max() < 1e-4


@pytest.mark.parametrize("router", ROUTERS)
def test_a_collapsed_router_sends_every_token_to_one_expert(planted, router):
    store = planted("collapsed", router)
    load = store.total("08", "load")
    assert load[0] == load.sum() > 0


def test_swapped_axes_are_flat_by_construction(planted):
    store = planted("swapped_axes")
    spec = store.spec("08")
    np.testing.assert_allclose(store.combine("08").sum(axis=1), 1, atol=1e-2)
    assert abs(store.combine("08").sum(axis=2) - 1).max() > 0.5
    flat = spec.slots / spec.experts / spec.tokens
    np.testing.assert_allclose(store.profile("08", "all"), flat, rtol=1e-5)


@pytest.mark.parametrize("router", ROUTERS)
def test_class_decides_in_the_planted_layer_alone(planted, router):
    store = planted("class_in_one_layer", router)
    shares = {spec.key: class_share(store, spec.key) for spec in store.layers}
    inside = shares.pop(planted_layer())
    assert inside > 0.5 > 0.2 > max(shares.values())


@pytest.mark.parametrize("router", ["soft", "sphero", "topk"])
def test_the_place_of_a_patch_decides(planted, router):
    store = planted("position", router)
    top = store.total("08", "position_mass").argmax(axis=1)
    assert top.tolist() == np.repeat(np.arange(4), 4).tolist()
    assert class_share(store, "08") < 0.2


@pytest.mark.parametrize("router", ROUTERS)
def test_nothing_decides_in_a_uniform_store(planted, router):
    store = planted("uniform", router)
    load = store.total("08", "load")
    assert load.min() / load.sum() > 0.15
    assert class_share(store, "08") < 0.2
    if router in ("soft", "sphero"):
        assert store.table("08", "token_entropy").min() > 0.95 * np.log(4)


@pytest.mark.parametrize("router", ROUTERS)
def test_equal_arguments_give_equal_bytes(tmp_path, router):
    paths = [
        planted_store(tmp_path / name, "healthy", router=router, images=20, layers=1, seed=seed)
        for name, seed in (("a", 3), ("b", 3), ("c", 4))
    ]
    one, two, other = (fingerprint(path) for path in paths)
    assert one == two != other


@pytest.mark.parametrize("level", ["totals", "profiles"])
def test_less_detail_is_a_part_of_more(tmp_path, level):
    less = open_store(planted_store(tmp_path / "less", "healthy", level=level, images=20))
    more = open_store(planted_store(tmp_path / "more", "healthy", images=20, full=7))
    assert (less.full, more.full) == (0, 7)
    for name in more.totals("06"):
        np.testing.assert_array_equal(less.total("06", name), more.total("06", name))
    for name in less.tables("06"):
        np.testing.assert_array_equal(less.table("06", name), more.table("06", name))
    assert bool(less.tables("06")) == (level == "profiles")
    assert more.mass("06").shape == (7, 17, 4)


def test_pictures_and_features_show_the_class(planted):
    store = planted("healthy")
    pictures = store.thumbnails()
    assert pictures.shape == (120, 32, 32, 3)
    colour = pictures.astype(float).max(axis=(1, 2))
    assert len(np.unique(colour, axis=0)) == len(store.classes) == 8
    pooled = store.table("08", "pooled")
    assert pooled.dtype == np.float16
    means = np.array([pooled[store.labels == label].mean(axis=0) for label in range(8)])
    nearest = ((pooled[:, None] - means) ** 2).sum(axis=-1).argmin(axis=1)
    assert (nearest == store.labels).mean() > 0.9


@pytest.mark.parametrize("images", [1, 16, 17])
def test_any_number_of_images_and_experts_will_do(tmp_path, images):
    for experts, router in ((1, "soft"), (3, "topk"), (1, "image")):
        path = planted_store(
            tmp_path / f"{experts}{router}",
            "healthy",
            images=images,
            experts=experts,
            router=router,
            grid=(2, 3),
            layers=1,
        )
        assert open_store(path).profile("06").shape == (images, experts)


def test_kinds_that_make_no_sense_are_named(tmp_path):
    with pytest.raises(ValueError, match="kind 'sick' is not one of healthy, dead_expert"):
        planted_store(tmp_path / "s", "sick")
    with pytest.raises(ValueError, match="swapped_axes is a fault of router 'soft'"):
        planted_store(tmp_path / "s", "swapped_axes", router="topk")
    with pytest.raises(ValueError, match="position routing needs tokens"):
        planted_store(tmp_path / "s", "position", router="image")
    assert list(tmp_path.iterdir()) == []


def test_a_store_is_replaced_only_when_asked(tmp_path):
    path = planted_store(tmp_path / "s", "healthy", images=4, layers=1)
    with pytest.raises(Refusal, match="exists"):
        planted_store(path, "healthy", images=4, layers=1)
    planted_store(path, "uniform", images=4, layers=1, overwrite=True)
    assert open_store(path).card.data.source == "planted: uniform"


def test_every_kind_says_what_it_looks_like():
    assert all(text.endswith(".") and len(text) > 60 for text in PLANTED.values())
