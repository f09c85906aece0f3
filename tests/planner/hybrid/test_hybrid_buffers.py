"""Replicas add to the buffers of an epoch, and nothing outlives it; `tests/runtime/hybrid` has them to the byte."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest

from gnnplan.planner.buffers import Buffers
from gnnplan.planner.hybrid.buffers import HybridEpoch, hybrid_buffers, most_buffers
from gnnplan.planner.hybrid.sizes import most_sizes
from gnnplan.planner.joint_cache.decision import NO_CACHE
from gnnplan.profiles.kernels.pool import POOLED_BYTES
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


@dataclass
class Fitting(Buffers):
    """Gives every buffer the smallest waiting block that is large enough, as the pool does; knows what is missing."""

    waiting: list = field(default_factory=list)
    missing: list = field(default_factory=list)
    taken: dict = field(default_factory=dict)

    def make(self, num_elements):
        buffer = super().make(num_elements)
        size = self._bytes_of[buffer]
        if size >= POOLED_BYTES:
            fitting = [block for block in self.waiting if block >= size]
            if fitting:
                self.taken[buffer] = min(fitting)
                self.waiting.remove(self.taken[buffer])
            else:
                self.missing.append(size)
        return buffer

    def drop(self, *buffers):
        super().drop(*buffers)
        for buffer in buffers:
            if buffer in self.taken and self._holders[buffer] == 0:
                self.waiting.append(self.taken.pop(buffer))


@pytest.mark.parametrize(("kind", "layers"), CASES)
def test_an_epoch_under_any_split_fits_into_the_blocks_of_the_most(kind, layers):
    """First come, first served, the smallest block that is large enough: no other is needed."""
    shares = Shares(kind, layers, hidden=512)
    union, none = (shares.replicas(shares.masks(share)) for share in (1.0, 0.0))
    most = most_sizes(union, none)
    for rank, shape in enumerate(shares.shapes):
        blocks = hybrid_buffers(shares.program, shape, 3, most, rank).pooled
        fitting = Fitting(waiting=[size for size, count in blocks.items() for _ in range(count)])
        for seed, share in enumerate(np.linspace(0, 1, 9)):
            replicas = shares.replicas(shares.masks(share, seed))
            epoch = HybridEpoch(shares.program, shape, 3, 3, NO_CACHE, rank, replicas=replicas, buffers=fitting)
            epoch.play()
        assert len(fitting.waiting) == sum(blocks.values()) > 0
        assert not fitting.missing
