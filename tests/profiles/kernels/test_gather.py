"""Rows picked by vertex: equal to indexing for every element type, shape and alignment."""

import pytest
import torch

from gnnplan.profiles.kernels.gather import can_gather, copy_rows

TYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool]
ROWS = torch.tensor([4, 0, 4, 2])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(5,), (5, 1), (5, 3), (5, 8), (5, 2, 3)])
def test_rows_are_those_of_indexing(dtype, shape):
    """out[i] is table[rows[i]], of the same type, and the tensor given is the one returned."""
    table = (torch.arange(torch.Size(shape).numel()) % 7).view(shape).to(dtype)
    out = torch.empty((len(ROWS), *shape[1:]), dtype=dtype)
    assert copy_rows(table, ROWS, out) is out
    assert torch.equal(out, table[ROWS])


def test_table_that_starts_between_words():
    """A table that begins in the middle of a word of eight bytes gives its own rows."""
    table = torch.arange(25, dtype=torch.float32)[1:].view(12, 2)
    assert table.data_ptr() % 8 != 0
    assert torch.equal(copy_rows(table, ROWS, torch.empty(4, 2)), table[ROWS])


@pytest.mark.parametrize("shape", [(5, 0), (5, 3)])
def test_nothing_to_gather(shape):
    """Rows without columns, and no rows at all, are fine."""
    none = torch.empty(0, dtype=torch.int64)
    assert copy_rows(torch.ones(shape), none, torch.empty(0, *shape[1:])).shape == (0, shape[1])
    assert copy_rows(torch.ones(5, 0), ROWS, torch.empty(4, 0)).shape == (4, 0)


def test_other_tensors_are_told():
    """Transposed, sparse, scalar and trained tensors are not for this kernel."""
    assert can_gather(torch.ones(3, 2))
    for other in (torch.ones(3, 2).t(), torch.eye(3).to_sparse(), torch.tensor(1.0), torch.ones(3, requires_grad=True)):
        assert not can_gather(other)
