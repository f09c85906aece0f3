"""Replicas add to the buffers of an epoch, and nothing outlives it; `tests/runtime/hybrid` has them to the byte."""

from types import SimpleNamespace

import pytest

from planner.hybrid.buffers import hybrid_buffers, most_buffers
from planner.hybrid.sizes import most_sizes
from profiles.kernels.pool import POOLED_BYTES
from tests.planner.hybrid.shares import CASES, Shares


@pytest.mark.parametrize(("kind", "layers"), CASES)
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("on_cuda", [False, True])
def test_every_buffer_is_dropped(kind, layers, share, on_cuda):
    """Whatever is cached."""
    shares = Shares(kind, layers)
    replicas = shares.replicas(shares.masks(share))
    for rank, shape in enumerate(shares.shapes):
        buffers = hybrid_buffers(shares.program, shape, 3, replicas, rank, on_cuda=on_cuda)
        assert buffers.live_bytes == 0
        assert 0 < buffers.peak_bytes <= buffers.held_bytes


@pytest.mark.parametrize(("kind", "layers"), CASES)
def test_replicas_need_room(kind, layers):
    """An epoch that makes its halo's rows holds more of them than one that fetches them, or drops, as they come."""
    shares = Shares(kind, layers, hidden=64)
    none, all_of_them = (shares.replicas(shares.masks(share)) for share in (0.0, 1.0))
    for rank, shape in enumerate(shares.shapes):
        peaks = [hybrid_buffers(shares.program, shape, 3, each, rank).peak_bytes for each in (none, all_of_them)]
        assert peaks[0] < peaks[1]


@pytest.mark.parametrize(("kind", "layers"), CASES)
def test_the_most_of_a_plans_worker_is_counted_by_its_own_levels(kind, layers):
    """Whatever the others cache. Blocks of the pool are those of its size and above."""
    shares = Shares(kind, layers, hidden=512)
    planned, union, none = (shares.replicas(shares.masks(share)) for share in (0.5, 1.0, 0.0))
    most = most_sizes(union, none)
    graph = SimpleNamespace(num_classes=3)
    plan = SimpleNamespace(program=lambda: shares.program, shapes=shares.shapes, graph=graph, replicas=planned)
    for rank, shape in enumerate(shares.shapes):
        found = most_buffers(plan, rank, most.workers[rank].levels)
        expected = hybrid_buffers(shares.program, shape, 3, most, rank)
        assert found.held_bytes == expected.held_bytes
        assert found.pooled == expected.pooled
        assert found.pooled
        assert min(found.pooled) >= POOLED_BYTES
