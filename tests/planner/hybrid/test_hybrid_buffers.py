"""Replicas add to the buffers of an epoch, and nothing outlives it; `tests/runtime/hybrid` has them to the byte."""

import pytest

from planner.hybrid.buffers import hybrid_buffers
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
