"""Arrays read where they lie in an archive."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.planner.loaders.mapped import mapped_arrays
from gnnplan.planner.loaders.read import reading
from gnnplan.profiles.errors import UserError

DTYPES = ("float32", "float64", "int32", "int64", "uint8", "bool", "U7")


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.lists(st.integers(0, 7), max_size=3), st.sampled_from(DTYPES)), min_size=1, max_size=5))
def test_equals_what_numpy_reads(tmp_path_factory, arrays):
    """Of every type and shape; and writing to them leaves the file as it is."""
    path = tmp_path_factory.mktemp("mapped") / "a.npz"
    rng = np.random.default_rng(0)
    made = {f"group/{i}:array": rng.integers(0, 2, shape).astype(dtype) for i, (shape, dtype) in enumerate(arrays)}
    np.savez(path, **made)
    for found in (mapped_arrays(path), mapped_arrays(path)):
        assert found.keys() == made.keys()
        for name, array in found.items():
            assert array.dtype == made[name].dtype
            assert np.array_equal(array, made[name])
            array[...] = array.dtype.type(1)


@pytest.mark.parametrize("size", [0, 10, 200, 400])
def test_a_file_that_was_cut_short(tmp_path, size):
    """The path comes first, in a line."""
    path = tmp_path / "a.npz"
    np.savez(path, a=np.arange(100))
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(UserError, match=f"^{path}: "), reading(path, "a shard"):
        mapped_arrays(path)


def test_compressed_arrays_and_objects_are_refused(tmp_path):
    """Neither can be used where it lies."""
    np.savez_compressed(tmp_path / "a.npz", a=np.arange(10))
    with pytest.raises(UserError, match="compressed"):
        mapped_arrays(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", a=np.array([{}], object))
    with pytest.raises(UserError, match="no plain array"):
        mapped_arrays(tmp_path / "b.npz")
