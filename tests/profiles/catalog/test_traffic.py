"""Bytes of an operator are those of the arrays that it passes over, once each, and a row far away costs a sector."""

from math import isqrt

import numpy as np
import pytest
import scipy.sparse as sp

from gnnplan.profiles.catalog import traffic
from gnnplan.profiles.catalog.roofline import AXES

TRANSFERS = {"h2d_pinned", "h2d_pageable", "d2h_pinned", "d2h_pageable"}


def floats(*shape):
    return np.zeros(shape, np.float32)


def test_every_operator_but_the_hosts_copies_has_its_traffic():
    assert set(traffic.TRAFFIC) == set(AXES) - TRANSFERS


def test_matrices_of_the_paper_are_as_large_as_512_mib_allow():
    """With 0.4% of each row's entries stored."""
    assert isqrt(2**29 // 4) == traffic.PAPER_EXTENT
    assert traffic.PAPER_BYTES == 4 * traffic.PAPER_EXTENT**2 <= 2**29
    assert pytest.approx(0.004) == traffic.PAPER_DEGREE / traffic.PAPER_EXTENT


@pytest.mark.parametrize(("width", "num_bytes"), [(1, 32), (8, 32), (9, 36), (128, 512)])
def test_a_row_at_a_random_place_moves_a_sector_at_least(width, num_bytes):
    assert traffic.random_row_bytes(width) == num_bytes


def test_a_product_reads_its_operands_and_writes_its_result():
    """Which costs the multiplications and additions of its inner products."""
    a, b = floats(30, 20), floats(20, 10)
    assert traffic.matmul_bytes(30, 20, 10) == a.nbytes + b.nbytes + (a @ b).nbytes
    assert traffic.matmul_flops(30, 20, 10) == (a @ b).size * 2 * 20


def test_a_sparse_product_reads_a_row_for_every_entry():
    """Beside the matrix itself; what it adds to is read and written."""
    matrix, x = sp.csr_matrix(floats(30, 4) + 1), floats(4, 16)
    stored = matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr[1:].nbytes
    moved = stored + x[matrix.indices].nbytes + 2 * (matrix @ x).nbytes
    assert traffic.spmm_bytes(30, 4, 16) == moved


def test_rows_are_gathered_and_added_back_by_their_numbers():
    """Gathering reads and writes them once; adding back reads what is added and adds it in place."""
    rows, x = np.arange(40), floats(50, 16)
    assert traffic.gather_rows_bytes(40, 16) == rows.nbytes + 2 * x[rows].nbytes
    assert traffic.scatter_add_rows_bytes(40, 16) == rows.nbytes + 3 * x[rows].nbytes


@pytest.mark.parametrize("operator", sorted(traffic.TRAFFIC))
def test_no_rows_move_nothing_but_the_weight(operator):
    """A product reads its weight though nothing is multiplied with it."""
    others = (16.0,) * (len(AXES[operator]) - 1)
    left = 4 * 16 * 16 if operator.startswith("matmul") else 0
    assert traffic.TRAFFIC[operator].bytes(0.0, *others) == left
