import pytest

from routelab.records import Refusal, SoftRecipe
from routelab.store import StoreWriter, fingerprint, is_complete, open_store
from routelab.store.resuming import first_difference
from tests.store import miniature


@pytest.fixture
def begun(tmp_path):
    """A store that was broken off after four images."""
    with miniature.create(tmp_path / "s.zarr") as writer:
        miniature.append_rest(writer, until=4)
        writer.commit()
    return tmp_path / "s.zarr"


def test_a_resumed_store_has_the_bytes_of_an_unbroken_one(tmp_path, begun):
    miniature.resume(begun, miniature.card(command="routelab capture … --resume"))
    assert fingerprint(begun) == fingerprint(miniature.complete(tmp_path / "whole.zarr"))


def test_nothing_there_is_nothing_to_resume(tmp_path):
    with pytest.raises(Refusal, match=r"nothing to resume at .*leave --resume out"):
        StoreWriter.resume(tmp_path / "none.zarr", miniature.card())
    with pytest.raises(Refusal, match="not a RouteLab store"):
        StoreWriter.resume(tmp_path, miniature.card())


def test_a_complete_store_is_not_resumed(tmp_path):
    path = miniature.complete(tmp_path / "s.zarr")
    before = fingerprint(path)
    (path / "state-10.npz").write_bytes(b"left by a kill")
    with pytest.raises(Refusal, match="is complete; there is nothing to resume"):
        StoreWriter.resume(path, miniature.card())
    assert fingerprint(path) == before


def test_a_store_knows_whether_it_is_complete(tmp_path, begun):
    assert not is_complete(begun, miniature.card())
    miniature.resume(begun)
    (begun / "images" / "label" / "c.0.tmp").write_bytes(b"left by a kill")
    assert is_complete(begun, miniature.card())
    assert not list(begun.rglob("*.tmp"))
    with pytest.raises(Refusal, match=r"capture\.seed = 0, this capture has 1"):
        is_complete(begun, miniature.card(seed=1))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"batch_size": 1}, "capture.batch_size = 2, this capture has 1"),
        ({"dtype": "bfloat16"}, "capture.dtype = 'float32', this capture has 'bfloat16'"),
        ({"versions": {"torch": "3"}}, "capture.versions.torch = None, this capture has '3'"),
        ({"layers": (6,)}, "with layers = "),
        ({"layers": (6, 8)}, "layers.1.layer = 'blocks.7.mlp', this capture has 'blocks.8.mlp'"),
    ],
)
def test_another_configuration_is_refused_by_its_first_difference(begun, change, says):
    before = fingerprint(begun)
    with pytest.raises(Refusal, match="was begun with") as refusal:
        StoreWriter.resume(begun, miniature.card(**change))
    assert says in str(refusal.value)
    assert fingerprint(begun) == before


def test_another_model_is_refused(begun):
    card = miniature.card()
    model = card.model.model_copy(update={"sha256": "f00"})
    with pytest.raises(Refusal, match=r"model\.sha256 = '', this capture has 'f00'"):
        StoreWriter.resume(begun, card.model_copy(update={"model": model}))
    layer = card.layers[0].model_copy(update={"recipe": SoftRecipe(combine="entmax15")})
    with pytest.raises(Refusal, match=r"layers\.0\.recipe\.dispatch_temperature = 0\.5"):
        StoreWriter.resume(begun, card.model_copy(update={"layers": (layer, card.layers[1])}))


def test_a_lost_state_is_refused(begun):
    (begun / "state-4.npz").rename(begun / "state-3.npz")
    with pytest.raises(Refusal, match=r"state-4\.npz is missing"):
        StoreWriter.resume(begun, miniature.card())


def test_a_damaged_state_is_refused(begun):
    (begun / "state-4.npz").write_bytes(b"half")
    with pytest.raises(Refusal, match=r"state-4\.npz is damaged"):
        open_store(begun).total("06", "tokens")


def test_a_truncated_shard_in_progress_is_refused(begun):
    file = begun / "layers" / "06" / "profile" / "c.0.0"
    file.write_bytes(file.read_bytes()[:10])
    with pytest.raises(Refusal, match=r"profile/c\.0\.0 is damaged"):
        StoreWriter.resume(begun, miniature.card())


def test_the_first_difference_is_found_at_any_depth():
    assert first_difference({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}) == ("a.1.b", 2, 3)
    assert first_difference({"a": [1]}, {"a": [1, 2]}) == ("a", [1], [1, 2])
    assert first_difference({"a": 1}, {"a": 1, "b": 2}) == ("b", None, 2)
    assert first_difference({"a": {"b": 1}}, {"a": None}) == ("a", {"b": 1}, None)
    assert first_difference([1, 2], [1, 2]) is None
