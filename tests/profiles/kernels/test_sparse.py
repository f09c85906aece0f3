"""Sparse times dense: equal to the dense product, for empty, repeated and rectangular matrices alike."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.profiles.kernels.csr import csr_tensor
from gnnplan.profiles.kernels.sparse import spmm, spmm_add_


def random_matrix(rows, columns, density, seed):
    matrix = sp.random(rows, columns, density, format="csr", dtype=np.float32, random_state=seed)
    return sp.csr_matrix(matrix)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 20), st.integers(1, 20), st.integers(1, 9), st.sampled_from([0.0, 0.1, 0.7]), st.integers(0, 1000)
)
def test_product_equals_the_dense_product(rows, columns, width, density, seed):
    """spmm(M, D) is M @ D for any shape, without edges included."""
    matrix = random_matrix(rows, columns, density, seed)
    dense = torch.randn(columns, width, generator=torch.Generator().manual_seed(seed))
    expected = torch.from_numpy(matrix.toarray()) @ dense
    torch.testing.assert_close(spmm(csr_tensor(matrix), dense), expected, rtol=1e-5, atol=1e-5)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 20), st.integers(1, 20), st.sampled_from([0.0, 0.1, 0.7]), st.integers(0, 1000))
def test_adding_product_works_in_place(rows, columns, density, seed):
    """spmm_add_ adds M @ D to the given tensor and returns that very tensor."""
    matrix = random_matrix(rows, columns, density, seed)
    generator = torch.Generator().manual_seed(seed)
    dense, out = torch.randn(columns, 5, generator=generator), torch.randn(rows, 5, generator=generator)
    expected = out + torch.from_numpy(matrix.toarray()) @ dense
    assert spmm_add_(out, csr_tensor(matrix), dense) is out
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)


def test_repeated_entries_count_as_often_as_listed():
    """A CSR that lists an entry twice multiplies by its sum."""
    matrix = sp.csr_matrix((np.float32([1, 2, 4]), np.int32([0, 0, 1]), np.int32([0, 2, 3])), shape=(2, 2))
    dense = torch.tensor([[1.0], [10.0]])
    assert spmm(csr_tensor(matrix), dense).tolist() == [[3.0], [40.0]]


def test_product_without_columns_is_zero():
    """A block without halo rows [n, 0] times [0, width] gives zeros, not leftovers of the allocator."""
    empty = csr_tensor(sp.csr_matrix((3, 0), dtype=np.float32))
    assert spmm(empty, torch.empty(0, 4)).tolist() == [[0.0] * 4] * 3


def test_indices_become_int32_and_values_float32():
    """Whatever scipy holds, the tensor's index and value types are those MKL and cuSPARSE take."""
    matrix = sp.csr_matrix(np.eye(3))
    matrix.indptr, matrix.indices = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
    tensor = csr_tensor(matrix)
    assert (tensor.crow_indices().dtype, tensor.col_indices().dtype) == (torch.int32, torch.int32)
    assert tensor.dtype == torch.float32


def test_what_the_output_buffer_held_before_does_not_leak(monkeypatch):
    """A fresh product does not read its uninitialised buffer (beta = 0), whatever stood in it."""
    monkeypatch.setattr(torch.Tensor, "new_empty", lambda x, *shape: x.new_full(shape, torch.nan))
    matrix = csr_tensor(random_matrix(64, 64, 0.1, 1))
    assert torch.isfinite(spmm(matrix, torch.ones(64, 32))).all()


@pytest.mark.parametrize("width", [1, 3, 64])
def test_transposed_operand_is_taken_as_it_is(width):
    """A dense operand that is a view of a transpose gives the same product as its copy."""
    matrix = csr_tensor(random_matrix(10, 12, 0.4, 2))
    dense = torch.randn(width, 12, generator=torch.Generator().manual_seed(0)).t()
    torch.testing.assert_close(spmm(matrix, dense), spmm(matrix, dense.contiguous()))
