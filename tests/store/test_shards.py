import dask.array
import numpy as np
import pytest
import xarray
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from routelab.records import Refusal
from routelab.store.arrays import read_rows
from routelab.store.files import write_whole
from routelab.store.layout import Column, create_rows, cut
from routelab.store.shards import (
    Sharding,
    damaged_chunks,
    encode_shard,
    map_shard,
    read_sharding,
)


def write(folder, sharding, values, *, axis="image"):
    """Through RouteLab's encoder."""
    create_rows(folder, sharding, axis=axis)
    for shard in range(sharding.shards):
        rows = values[shard * sharding.shard : (shard + 1) * sharding.shard]
        write_whole(sharding.file(folder, shard), encode_shard(rows, sharding))


def random_values(shape, dtype):
    numbers = np.random.default_rng(0).integers(1, 100, shape)
    return numbers.astype(dtype)


cases = st.tuples(
    st.integers(1, 9),
    st.lists(st.integers(1, 3), max_size=3),
    st.sampled_from(["int16", "float16", "uint8", "float32", "float64", "int32"]),
    st.integers(1, 3),
    st.integers(1, 3),
)


@settings(max_examples=25, deadline=None)
@given(cases)
def test_zarr_reads_what_we_write_and_we_read_what_zarr_writes(tmp_path_factory, case):
    rows, row, dtype, chunk, chunks = case
    sharding = Sharding((rows, *row), np.dtype(dtype), chunk, chunk * chunks)
    values = random_values(sharding.shape, dtype)
    folder = tmp_path_factory.mktemp("arrays")
    write(folder / "ours", sharding, values)
    np.testing.assert_array_equal(zarr.open_array(folder / "ours")[...], values)
    create_rows(folder / "theirs", sharding, axis="image")
    zarr.open_array(folder / "theirs")[...] = values
    assert read_sharding(folder / "theirs") == sharding
    picked = np.array([rows - 1, *range(rows)])
    for name in ("ours", "theirs"):
        read = read_rows(folder / name, sharding, picked)
        np.testing.assert_array_equal(read, values[picked])


def test_the_bytes_are_those_that_zarr_writes(tmp_path):
    sharding = Sharding((7, 2, 3), np.dtype("int16"), 1, 4)
    values = random_values(sharding.shape, "int16")
    write(tmp_path / "ours", sharding, values)
    create_rows(tmp_path / "theirs", sharding, axis="image")
    zarr.open_array(tmp_path / "theirs")[...] = values
    for shard in range(sharding.shards):
        ours, theirs = (sharding.file(tmp_path / n, shard) for n in ("ours", "theirs"))
        assert ours.read_bytes() == theirs.read_bytes()


@pytest.fixture
def shard(tmp_path):
    """One shard of three images, and its path."""
    sharding = Sharding((3, 2), np.dtype("int16"), 1, 4)
    write(tmp_path / "a", sharding, random_values((3, 2), "int16"))
    return sharding, sharding.file(tmp_path / "a", 0)


def test_a_mapped_shard_is_read_only(shard):
    sharding, file = shard
    with pytest.raises(ValueError, match="read-only"):
        map_shard(file, sharding)[0] = 1


@pytest.mark.parametrize("keep", [0, 3, 30, -1])
def test_a_truncated_shard_is_refused_by_name(shard, keep):
    sharding, file = shard
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(Refusal, match=r"c\.0\.0 is damaged"):
        map_shard(file, sharding)


def test_a_shard_with_a_byte_too_many_is_refused(shard):
    sharding, file = shard
    file.write_bytes(b"\0" + file.read_bytes())
    with pytest.raises(Refusal, match="damaged"):
        map_shard(file, sharding)


def test_a_missing_shard_is_refused_by_name(shard):
    sharding, file = shard
    file.unlink()
    with pytest.raises(Refusal, match=r"c\.0\.0 is missing"):
        map_shard(file, sharding)


def test_one_flipped_bit_is_found_in_its_chunk(shard):
    sharding, file = shard
    assert damaged_chunks(file, sharding) == []
    data = bytearray(file.read_bytes())
    data[9] ^= 1  # the second chunk begins at byte 8: two int16 and a checksum
    file.write_bytes(data)
    assert damaged_chunks(file, sharding) == [1]


def test_an_array_of_another_codec_is_refused(tmp_path):
    zarr.create_array(tmp_path / "plain", shape=(4,), dtype="int16")
    with pytest.raises(Refusal, match="damaged"):
        read_sharding(tmp_path / "plain")
    with pytest.raises(Refusal, match="missing"):
        read_sharding(tmp_path / "nothing")


def test_dask_and_xarray_open_the_arrays(tmp_path):
    zarr.create_group(tmp_path / "06")
    full, table = cut(Column((5, 2), "int16"), 6, shard=4), cut(Column((3,), "float32"), 10)
    logits, profile = random_values(full.shape, "int16"), random_values(table.shape, "float32")
    write(tmp_path / "06" / "logits", full, logits, axis="full_image")
    write(tmp_path / "06" / "profile", table, profile)
    lazy = dask.array.from_zarr(str(tmp_path / "06" / "logits"), chunks=(4, 5, 2))
    assert lazy.sum().compute() == logits.sum()
    with xarray.open_zarr(tmp_path / "06", consolidated=False) as data:
        assert data["profile"].dims == ("image", "expert")
        assert data["logits"].dims == ("full_image", "token", "slot")
        np.testing.assert_array_equal(data["profile"], profile)
