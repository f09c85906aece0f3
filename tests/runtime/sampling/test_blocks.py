"""Memory of batches: given again after its tensor is dropped, never before, and bounded."""

import gc

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gnnplan.runtime.sampling.blocks import BatchBlocks, rounded_up

LARGE = (1000, 100)  # float32: 400 kB


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
@pytest.mark.parametrize("shape", [(3,), (0, 5), LARGE, (2, 300_000)])
def test_tensors_are_as_asked(dtype, shape):
    """Shape and type are those asked for; the tensor is contiguous, writable and no view to autograd."""
    tensor = BatchBlocks(2).empty(shape, dtype)
    assert (tensor.shape, tensor.dtype, tensor.is_contiguous()) == (shape, dtype, True)
    assert not tensor._is_view()
    assert tensor.fill_(1).bool().all()


def test_dropped_memory_is_given_again():
    """The next tensor of about the size takes the block that the last one left."""
    blocks = BatchBlocks(2)
    first = blocks.empty(LARGE, torch.float32)
    address = first.data_ptr()
    del first
    gc.collect()
    assert blocks.waiting_bytes() >= 400_000
    again = blocks.empty((990, 100), torch.float32)
    assert again.data_ptr() == address
    assert blocks.waiting_bytes() == 0


def test_memory_in_use_is_not_given_away():
    """While any view of a tensor lives, its block is nobody else's."""
    blocks = BatchBlocks(2)
    view = blocks.empty(LARGE, torch.float32).fill_(3)[5:7]
    array = blocks.empty(LARGE, torch.float32).fill_(4).numpy()
    gc.collect()
    for _ in range(3):
        blocks.empty(LARGE, torch.float32).fill_(9)
    assert (view == 3).all()
    assert (array == 4).all()


def test_what_waits_is_bounded():
    """Of many tensors dropped at once only as many blocks are kept as may wait."""
    blocks = BatchBlocks(2)
    many = [blocks.empty(LARGE, torch.float32) for _ in range(5)]
    del many
    gc.collect()
    assert blocks.waiting_bytes() == 2 * rounded_up(400_000)


@given(st.integers(1, 2**40))
def test_sizes_are_rounded_up_by_an_eighth_at_most(num_bytes):
    """A block holds what is asked, in whole pages, and wastes at most an eighth or a page."""
    size = rounded_up(num_bytes)
    assert size % 4096 == 0
    assert num_bytes <= size < num_bytes + max(4096, num_bytes / 8 + 1)
