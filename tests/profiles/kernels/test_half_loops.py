"""Loops over bfloat16 against torch's own arithmetic in float32, rounded once."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gnnplan.profiles.kernels.activation import activate_
from gnnplan.profiles.kernels.csr import csr_tensor
from gnnplan.profiles.kernels.halves import (
    HALF,
    NARROW,
    add_bias_,
    add_rows_,
    column_sums,
    gram_of_halves,
    half_product,
    half_product_add_,
)

QUANTUM = 2**-8  # relative, between neighbours
WIDTHS = st.sampled_from([1, 5, NARROW - 1, NARROW, NARROW + 1, 70])


def drawn(seed, *shape):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32)).to(HALF)


def sparse(seed, rows, columns):
    return sp.random(rows, columns, 0.2, format="csr", dtype=np.float32, random_state=seed)


def assert_rounded(got, want):
    """To one of the two neighbours: the order of float32 sums may tell them apart."""
    assert got.dtype == HALF
    scale = want.abs().amax() if want.numel() else 0
    assert ((got.float() - want).abs() <= QUANTUM * want.abs() + 1e-5 * scale + 1e-30).all()


@given(st.integers(0, 50), st.integers(0, 40), st.integers(1, 30), WIDTHS)
def test_products_are_sums_in_float32_rounded_once(seed, num_rows, num_columns, width):
    """Also of empty matrices, of fewer columns than a vector has, and onto what is there."""
    matrix, rows, out = sparse(seed, num_rows, num_columns), drawn(seed, num_columns, width), drawn(1, num_rows, width)
    want = torch.from_numpy(matrix.toarray()) @ rows.float()
    assert_rounded(half_product(csr_tensor(matrix), rows), want)
    onto = out.float() + want
    assert_rounded(half_product_add_(out, csr_tensor(matrix), rows), onto)


@given(arrays(np.float32, st.tuples(st.integers(1, 9), st.just(NARROW)), elements=st.floats(width=32)))
def test_every_number_is_rounded_as_torch_rounds_it(numbers):
    """Ties, subnormal numbers, infinities and NaN among them."""
    x = torch.from_numpy(numbers)
    one = csr_tensor(sp.identity(len(x), dtype=np.float32, format="csr"))
    kept = half_product(one, x.to(HALF))
    assert torch.equal(kept.isnan(), x.isnan())
    assert torch.equal(kept.nan_to_num(), x.to(HALF).nan_to_num())
    bias = torch.zeros(NARROW)
    assert torch.equal(add_bias_(x.to(HALF), bias, relu=False).nan_to_num(), x.to(HALF).nan_to_num())


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_activations_drop_the_same_elements(relu, dropout):
    """As those of float32 rows, which are then rounded."""
    z, bias, vertices = drawn(0, 60, 17), torch.randn(17), torch.arange(60) * 7
    how = {"relu": relu, "dropout": dropout, "key": 5, "vertices": vertices}
    want = activate_(z.float(), bias, **how).to(HALF)
    assert torch.equal(activate_(z, bias, **how), want)


@given(st.integers(0, 20), st.integers(0, 300), st.integers(1, 40))
def test_columns_are_summed_in_float32(seed, num_rows, width):
    """In parts, with no copy of the rows."""
    x = drawn(seed, num_rows, width)
    found = column_sums(x)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, x.float().sum(0, keepdim=True), rtol=1e-5, atol=1e-4)


def test_rows_that_come_twice_are_added_twice():
    """One after the other, each rounded."""
    out, x = torch.zeros(3, 4, dtype=HALF), torch.ones(3, 4, dtype=HALF)
    assert add_rows_(out, torch.tensor([2, 0, 2]), x).tolist() == [[1] * 4, [0] * 4, [2] * 4]


def test_grams_are_float32():
    """For they are gradients of parameters."""
    grad, x = drawn(0, 500, 6), drawn(1, 500, 9)
    found = gram_of_halves(grad, x)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, grad.float().t() @ x.float(), rtol=QUANTUM, atol=1e-3)
