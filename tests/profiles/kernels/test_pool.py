"""A freed block comes back for the next tensor of its size, and never while anything looks at it."""

import gc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnnplan.profiles.kernels import pool

CPU = torch.device("cpu")
ROWS, WIDTH = 1000, 256


@pytest.fixture(autouse=True)
def _empty_pool():
    gc.collect()
    pool.release()
    yield
    pool.release()


def test_freed_block_is_used_again():
    """The same memory serves the next tensor of the size."""
    first = pool.empty(CPU, ROWS, WIDTH)
    place = first.data_ptr()
    del first
    assert pool.held_bytes() == pool.block_bytes(4 * ROWS * WIDTH)
    assert pool.empty(CPU, ROWS, WIDTH).data_ptr() == place


def test_other_shape_of_the_same_size_is_served():
    """Blocks go by bytes, not by shape."""
    place = pool.empty(CPU, ROWS, WIDTH).data_ptr()
    assert pool.empty(CPU, WIDTH, ROWS).data_ptr() == place


@pytest.mark.parametrize("look", [lambda t: t[3:7], lambda t: t.numpy(), lambda t: t.t(), lambda t: t.detach()])
def test_block_stays_taken_while_anything_looks_at_it(look):
    """A view, a numpy array or an alias keeps the block from being handed out."""
    tensor = pool.empty(CPU, ROWS, WIDTH)
    view = look(tensor)
    place = tensor.data_ptr()
    del tensor
    assert pool.held_bytes() == 0
    assert pool.empty(CPU, ROWS, WIDTH).data_ptr() != place
    del view


def test_autograd_keeps_what_it_saved():
    """A tensor saved for the backward pass is not overwritten before it."""
    weight = torch.ones(WIDTH, requires_grad=True)
    x = pool.empty(CPU, ROWS, WIDTH).fill_(2.0)
    loss = (x * weight).sum()
    del x
    pool.empty(CPU, ROWS, WIDTH).fill_(-1.0)
    loss.backward()
    assert torch.equal(weight.grad, torch.full((WIDTH,), 2.0 * ROWS))


def test_tensors_are_no_views_to_autograd():
    """An operator's output may be changed in place by the next one."""
    assert not pool.empty(CPU, ROWS, WIDTH)._is_view()
    assert not pool.empty(CPU, 2, 2)._is_view()


def test_small_tensors_are_left_to_torch():
    """Below the limit nothing is pooled, and a tensor without elements is fine."""
    pool.empty(CPU, 8, 8)
    assert pool.empty(CPU, 0, 5).shape == (0, 5)
    assert pool.held_bytes() == 0


def test_release_gives_the_waiting_blocks_back():
    """What is in use stays; what waits is gone."""
    taken = pool.empty(CPU, ROWS, WIDTH).fill_(7.0)
    pool.empty(CPU, ROWS, 2 * WIDTH)
    pool.release()
    assert pool.held_bytes() == 0
    assert bool((taken == 7.0).all())


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([300, 301, 600, 5000]), st.booleans()), max_size=30))
def test_live_tensors_never_share_memory(steps):
    """Whatever is made and dropped in whatever order, tensors alive at once hold what was written to them."""
    alive = []
    for number, (rows, drop) in enumerate(steps):
        alive.append((number, pool.empty(CPU, rows, 200).fill_(float(number))))
        if drop:
            alive.pop(len(alive) // 2)
    for number, tensor in alive:
        assert np.all(tensor.numpy() == number)
