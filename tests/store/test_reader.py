import re

import numpy as np
import pytest

from routelab.records import Refusal
from routelab.store import open_store, require_level
from routelab.testing import planted_store
from tests.store import miniature
from tests.store.miniature import FULL, IMAGES


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return open_store(miniature.complete(tmp_path_factory.mktemp("stores") / "s.zarr"))


@pytest.fixture(scope="module")
def sparse(tmp_path_factory):
    path = tmp_path_factory.mktemp("stores") / "sparse.zarr"
    return open_store(planted_store(path, "healthy", router="topk", images=32, full=20))


def reason(function, *arguments):
    with pytest.raises(Refusal) as refusal:
        function(*arguments)
    return str(refusal.value)


@pytest.mark.parametrize("name", ["06", "blocks.6.mlp", 6])
def test_a_layer_has_three_names(store, name):
    assert store.spec(name).key == "06"
    assert store.tables(name) == ("hits", "pooled", "prefix_mass", "profile")


def test_an_unknown_layer_is_refused_with_the_nearest_and_all(store):
    said = reason(store.spec, "blocks.8.mlp")
    assert re.search(r"no layer 'blocks.8.mlp'; did you mean blocks.[67].mlp\? its layers", said)
    assert said.endswith("06, 07")
    assert "did you mean" not in reason(store.profile, "encoder")


@pytest.mark.parametrize(
    "images", [None, slice(1, 5), slice(None, None, 2), 3, -1, [4, 0, 4], np.array([5])]
)
def test_images_are_chosen_as_from_an_array(store, images):
    everything = store.logits("06")
    picked = everything[[images]] if isinstance(images, int) else everything[images]
    if images is None:
        picked = everything
    np.testing.assert_array_equal(store.logits("06", images), picked)


def test_images_beyond_the_full_ones_are_refused(store):
    assert reason(store.mass, "06", [FULL]) == (
        "logits is stored for the first 6 images, not for [6]"
    )
    assert store.mass("06", slice(4, 99)).shape[0] == FULL - 4


def test_soft_routing_follows_the_recipe(store):
    spec = store.spec("06")
    logits = store.logits("06").astype(np.float64)
    dispatch = np.exp(logits / 0.5)
    combine = np.exp(logits / 2.0)
    dispatch /= dispatch.sum(axis=1, keepdims=True)
    combine /= combine.sum(axis=2, keepdims=True)
    np.testing.assert_allclose(store.dispatch("06"), dispatch, atol=1e-6)
    np.testing.assert_allclose(store.combine("06"), combine, atol=1e-6)
    mass = np.stack([combine[..., spec.expert_of_slot == e].sum(-1) for e in range(3)], axis=-1)
    seen = np.stack([dispatch[..., spec.expert_of_slot == e].sum(-1) for e in range(3)], axis=-1)
    np.testing.assert_allclose(store.mass("06"), mass, atol=1e-6)
    np.testing.assert_allclose(store.dispatch_mass("06"), seen, atol=1e-6)
    np.testing.assert_allclose(
        store.mass("06")[:, 1:].mean(1), store.profile("06")[:FULL], atol=1e-6
    )


def test_profiles_of_patches_prefix_and_all_tokens(store):
    mass = store.mass("06").astype(np.float64)
    for tokens, chosen in {"patches": mass[:, 1:], "prefix": mass[:, :1], "all": mass}.items():
        profile = store.profile("06", tokens)
        assert profile.dtype == np.float64
        assert profile.shape == (IMAGES, 3)
        np.testing.assert_allclose(profile[:FULL], chosen.mean(axis=1), atol=1e-6)


def test_sparse_routing_is_mass_where_a_token_was_kept(sparse):
    chosen = sparse.choices("06")
    mass, kept = sparse.mass("06"), sparse.dispatch_mass("06")
    assert mass.shape == kept.shape == (20, 17, 4)
    assert (chosen["slot"] < 0).any()
    for image, token, choice in np.ndindex(20, 17, 2):
        expert = chosen["expert"][image, token, choice]
        there = chosen["slot"][image, token, choice] >= 0
        assert kept[image, token, expert] == there
        assert mass[image, token, expert] == (chosen["gate"][image, token, choice] if there else 0)
    assert kept.sum() == (chosen["slot"] >= 0).sum()


def test_questions_to_the_wrong_kind_of_router_are_refused(store, sparse):
    assert "routes softly (soft) and makes no choices" in reason(store.choices, "06")
    for ask in (sparse.logits, sparse.dispatch, sparse.combine):
        assert "routes by choice (topk)" in reason(ask, "06")


def test_image_level_routing_has_one_profile(tmp_path):
    path = planted_store(tmp_path / "s.zarr", "healthy", router="image", images=16)
    store = open_store(path)
    assert store.mass("06").shape == (16, 1, 4)
    for tokens in ("all", "prefix"):
        np.testing.assert_array_equal(store.profile("06", tokens), store.profile("06"))


def test_stored_weights_are_read_where_no_recipe_makes_them(tmp_path):
    store = open_store(planted_store(tmp_path / "s.zarr", "swapped_axes", images=16))
    assert store.combine("06").dtype == np.float32
    assert "stores its weights" in reason(store.logits, "06")


def test_what_was_not_captured_is_refused(store, sparse, tmp_path):
    assert "has no 'margin'; it has hits, " in reason(store.table, "06", "margin")
    assert "has no 'tokens'; it has " in reason(store.tokens, "06")
    assert "has no sum 'load'; it has batch_load, " in reason(store.total, "06", "load")
    path = planted_store(tmp_path / "t.zarr", "healthy", level="totals", images=16)
    totals = open_store(path)
    assert totals.tables("06") == ()
    assert totals.predictions.shape == (16,)
    assert "holds totals only" in reason(totals.profile, "06")
    assert "holds no thumbnail" in reason(totals.thumbnails)
    with pytest.raises(Refusal, match="logits of layer 06 needs level 'full'"):
        totals.logits("06")


def test_each_level_holds_what_the_ones_before_hold(store, tmp_path):
    require_level(store, "full", "overlays")
    require_level(store, "totals", "load")
    for level in ("totals", "profiles"):
        path = planted_store(tmp_path / level, "healthy", level=level, images=16)
        require_level(open_store(path), "totals", "load")
        with pytest.raises(Refusal, match=rf"concentration needs level 'full', .*has '{level}'; "):
            require_level(open_store(path), "full", "concentration")
    with pytest.raises(Refusal, match=r"paths needs level 'profiles', .*has 'totals'"):
        require_level(open_store(tmp_path / "totals"), "profiles", "paths")
    path = planted_store(tmp_path / "bare", "healthy", full=0, images=16)
    with pytest.raises(Refusal, match="'full' without images in full"):
        require_level(open_store(path), "full", "concentration")


def test_what_is_no_store_is_refused(tmp_path):
    assert "does not exist; make a store with `routelab capture`" in reason(
        open_store, tmp_path / "none"
    )
    (tmp_path / "file").write_text("hello")
    (tmp_path / "folder").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "zarr.json").write_text('{"attributes": {}}')
    for name in ("file", "folder", "other"):
        assert "is not a RouteLab store" in reason(open_store, tmp_path / name)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"format": 1', '"format": 7', "has format 7, this RouteLab reads format 1"),
        ('"depth": 6', '"depth": "six"', "the card of .* cannot be read"),
        ('"committed"', '"commited"', "the card of .* cannot be read"),
    ],
)
def test_other_versions_and_broken_cards_are_refused(tmp_path, old, new, says):
    path = miniature.complete(tmp_path / "s.zarr")
    root = path / "zarr.json"
    text = root.read_text("utf-8")
    assert old in text
    root.write_text(text.replace(old, new), "utf-8")
    with pytest.raises(Refusal, match=says):
        open_store(path)


def test_a_total_whose_file_is_gone_is_refused(tmp_path):
    path = miniature.complete(tmp_path / "s.zarr")
    (path / "totals" / "06" / "class_mass" / "c" / "0" / "0").unlink()
    with pytest.raises(Refusal, match="class_mass/c/0/0 is missing"):
        open_store(path).total("06", "class_mass")


def test_a_store_says_what_it_is(store):
    assert repr(store).endswith("s.zarr': 10 images, 2 layers, level full)")
    assert store.classes == ("a", "b", "c")
