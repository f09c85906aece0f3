"""Dense products and gathers are torch's, in memory of the pool where they are large."""

import pytest
import torch

from gnnplan.profiles.kernels import pool
from gnnplan.profiles.kernels.dense import gather_rows, matmul, transposed


def matrix(rows, columns, seed=0):
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("rows", [0, 3, 700])
def test_results_are_torchs(rows):
    """Of empty, small and pooled matrices."""
    a, b = matrix(rows, 64), matrix(64, 80, seed=1)
    index = torch.arange(rows).flip(0)
    torch.testing.assert_close(matmul(a, b), a @ b)
    assert torch.equal(gather_rows(a, index), a.flip(0))
    assert torch.equal(transposed(a), a.t())
    assert transposed(a).is_contiguous()


@pytest.mark.parametrize(
    "make",
    [
        lambda a: matmul(a, a.t()),
        lambda a: gather_rows(a, torch.arange(len(a))),
        transposed,
    ],
)
def test_dropped_results_wait_in_the_pool(make):
    """The next one of the size takes the same memory."""
    pool.release()
    a = matrix(500, 100)
    address = (result := make(a)).data_ptr()
    num_bytes = pool.block_bytes(result.nbytes)
    del result
    assert pool.held_bytes() == num_bytes
    assert make(a).data_ptr() == address
    pool.release()
