"""Own sums over edges equal the products they stand for, for any width, and are used where they pay."""

import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.profiles.kernels import sparse, sum_loops
from gnnplan.profiles.kernels.csr import csr_tensor
from gnnplan.profiles.kernels.sparse import is_looped, spmm, spmm_add_

LARGE = 2**19 // 64  # rows of 64 columns


def random_matrix(rows, columns, density, seed):
    return sp.csr_matrix(sp.random(rows, columns, density, format="csr", dtype=np.float32, random_state=seed))


def parts_of(matrix):
    return matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32), matrix.data


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 150),
    columns=st.integers(1, 20),
    width=st.sampled_from([1, 3, 17, 64, 65, 127, 128, 129, 192, 300]),
    density=st.sampled_from([0.0, 0.1, 0.7]),
    adds=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_any_width_is_summed(rows, columns, width, density, adds, seed):
    """Whole blocks of columns and the rest of them, with rows that have no entry, anew and added."""
    matrix, generator = random_matrix(rows, columns, density, seed), torch.Generator().manual_seed(seed)
    dense, out = (torch.randn(size, width, generator=generator) for size in (columns, rows))
    expected = matrix.toarray().astype(np.float64) @ dense.double().numpy() + (out.double().numpy() if adds else 0)
    sum_loops.product(*parts_of(matrix), dense.numpy(), out.numpy(), adds=adds)
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-5, atol=1e-5)


def test_a_nan_is_not_lost():
    """Of a row that is read, in the rows that read it and in no other; and an infinite one."""
    matrix = sp.csr_matrix((np.ones(3, np.float32), np.int32([0, 1, 1]), np.int32([0, 1, 2, 3])), shape=(3, 2))
    dense, out = np.ones((2, 70), np.float32), np.zeros((3, 70), np.float32)
    dense[0, 0], dense[1, 69] = np.nan, np.inf
    sum_loops.product(*parts_of(matrix), dense, out, adds=False)
    assert np.isnan(out).sum() == np.isnan(out[0, 0]) == 1
    assert np.isinf(out[1:, 69]).all()
    assert np.isinf(out).sum() == 2


@pytest.fixture
def calls(monkeypatch):
    """Shapes of dense rows that own loops summed."""
    found, product = [], sum_loops.product

    def noted(indptr, indices, data, rows, out, *, adds):
        found.append(rows.shape)
        product(indptr, indices, data, rows, out, adds=adds)

    monkeypatch.setattr(sparse._loops, "product", noted, raising=False)
    return found


@pytest.mark.parametrize(
    ("columns", "width", "is_own"), [(LARGE, 64, True), (LARGE - 1, 64, False), (LARGE * 64 // 63 + 1, 63, False)]
)
def test_many_wide_rows_are_summed_by_own_loops(columns, width, is_own, calls):
    """Few lie in a cache, and of narrow ones MKL's are as fast."""
    matrix, dense = random_matrix(40, columns, 0.001, 1), torch.randn(columns, width)
    expected = torch.from_numpy(matrix @ dense.numpy())
    torch.testing.assert_close(spmm(csr_tensor(matrix), dense), expected, rtol=1e-5, atol=1e-5)
    out = torch.ones_like(expected)
    assert spmm_add_(out, csr_tensor(matrix), dense) is out
    torch.testing.assert_close(out, expected + 1, rtol=1e-5, atol=1e-5)
    assert is_looped(columns, width) == is_own
    assert calls == [(columns, width)] * 2 * is_own


def test_rows_of_another_kind_go_as_before(calls):
    """Of float64, which own loops would round; those of a transpose or with a gradient are taken."""
    matrix, dense = random_matrix(40, LARGE, 0.001, 2), torch.randn(64, LARGE).t()
    expected = torch.from_numpy(matrix @ dense.numpy())
    torch.testing.assert_close(spmm(csr_tensor(matrix), dense), expected, rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        spmm(csr_tensor(matrix), torch.randn(LARGE, 64, requires_grad=True))
    assert len(calls) == 2
    of_float64 = csr_tensor(matrix).to(torch.float64)
    out = torch.empty(40, 64, dtype=torch.float64)
    sparse._product(out, of_float64, dense.double(), beta=0)
    np.testing.assert_allclose(out.numpy(), matrix.astype(np.float64) @ dense.double().numpy(), rtol=1e-12, atol=1e-12)
    assert len(calls) == 2


THREADS = """
import numba, torch
torch.set_num_threads(1)
from gnnplan.profiles.kernels import sum_loops
sum_loops.compile_all()
print(torch.get_num_threads(), numba.get_num_threads())
torch.set_num_threads(2)
sum_loops.compile_all()
print(torch.get_num_threads(), numba.get_num_threads())
"""


@pytest.mark.long
def test_as_many_threads_as_torch_has():
    """Numba's start changes the count of torch no more, and follows it; never more than numba was given."""
    environment = {**os.environ, "NUMBA_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, timeout=120, env=environment)
    assert done.stdout.split("\n")[:2] == ["1 1", "2 2"], done.stderr
