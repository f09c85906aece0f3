"""Products tile by tile are those of the whole matrix, and only what gains by it is cut."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.profiles.kernels.sparse import spmm, spmm_add_
from gnnplan.profiles.kernels.tiles import LARGE, Tiles, in_tiles, num_tiles, on_device, transposed_in_tiles

CPU = torch.device("cpu")
BIG = (20_000, 20_000, 2_000_000)  # rows, columns, entries
WIDE = LARGE // 20_000 + 1


def random_matrix(rows, columns, density, seed):
    return sp.csr_matrix(sp.random(rows, columns, density, format="csr", dtype=np.float32, random_state=seed))


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 20),
    columns=st.integers(1, 20),
    count=st.integers(1, 25),
    density=st.sampled_from([0.0, 0.1, 0.7]),
    seed=st.integers(0, 1000),
)
def test_tiles_multiply_as_the_whole(rows, columns, count, density, seed):
    """Both ways, anew and added, with more tiles than columns and with tiles that are empty."""
    matrix = random_matrix(rows, columns, density, seed)
    for tiles, whole in ((in_tiles(matrix, count), matrix), (transposed_in_tiles(matrix, count), matrix.T)):
        dense = torch.randn(whole.shape[1], 3, generator=torch.Generator().manual_seed(seed))
        expected = torch.from_numpy(whole.toarray()) @ dense
        assert tiles.shape == whole.shape
        torch.testing.assert_close(spmm(tiles, dense), expected, rtol=1e-5, atol=1e-5)
        out = torch.ones_like(expected)
        assert spmm_add_(out, tiles, dense) is out
        torch.testing.assert_close(out, expected + 1, rtol=1e-5, atol=1e-5)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(0, 10**9), st.integers(1, 2000))
def test_no_tile_is_small(rows, columns, entries, width):
    """Every one has thousands of columns, or there is one; and adds several entries to a row."""
    count = num_tiles(rows, columns, entries, width)
    assert count >= 1
    if count > 1:
        assert width * columns >= LARGE
        assert columns / count > 2048
        assert entries / rows / count > 4


@pytest.mark.parametrize(
    ("shape", "width"), [(BIG, WIDE - 1), ((20_000, 20_000, 400_000), WIDE), ((20_000, 4096, 2_000_000), WIDE)]
)
def test_what_would_not_gain_stays_whole(shape, width):
    """Dense rows that fit a cache as they are, or few entries a row."""
    assert num_tiles(*shape, width) == 1
    assert num_tiles(*BIG, WIDE) == 5


def test_only_a_cpus_matrix_is_cut(monkeypatch):
    """A GPU gets the whole one."""
    monkeypatch.setattr("gnnplan.profiles.kernels.tiles.num_tiles", lambda *_: 3)
    matrix = random_matrix(9, 9, 0.5, 0)
    assert isinstance(on_device(matrix, False, 64, CPU), Tiles)
    assert not isinstance(on_device(matrix, False, 64, torch.device("meta")), Tiles)
