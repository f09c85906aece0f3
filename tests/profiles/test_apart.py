"""Hosts of one machine take turns; what is timed says how much faster one is while the others rest."""

import os

import pytest
import torch
import torch.distributed as dist

from gnnplan.profiles import apart
from gnnplan.profiles.apart import Turns, shared_machine
from gnnplan.profiles.grids import GRIDS
from gnnplan.profiles.machine import CpuQuota
from gnnplan.profiles.measure import Timing
from gnnplan.profiles.probes import Workers

HERE, THERE = 11, 22


@pytest.mark.parametrize("rank", range(5))
def test_every_host_of_a_machine_has_one_turn(rank):
    """Three hosts here, of which the second has two workers, and two there."""
    machines, first_of_host = [HERE, HERE, HERE, HERE, THERE, THERE], [0, 1, 1, 3, 4, 5]
    turns = Turns.of(machines, first_of_host, rank)
    assert turns.hosts == ((0, 1, 3), (4, 5))
    assert turns.count == 3
    assert sum(turns.is_own(turn) for turn in range(turns.count)) == 1
    assert len(turns.beside) == (2 if rank == 4 else 3)


def test_a_host_alone_on_its_machine_rests():
    """It takes part in all turns, and has none."""
    turns = Turns.of([HERE, HERE, THERE], [0, 1, 2], 2)
    assert turns.hosts == ((0, 1),)
    assert turns.beside == ()
    assert not any(turns.is_own(turn) for turn in range(turns.count))


def test_many_hosts_of_a_machine_are_not_timed_apart():
    """It would take minutes."""
    assert Turns.of([HERE] * 9, list(range(9)), 3).count == 0


@pytest.fixture
def two_hosts(monkeypatch):
    """The second of two hosts of one machine, whose operators take 3 s beside the other and 2 s alone."""
    taken = iter([3.0, 2.0] * 100)
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_world_size", lambda *_: 2)
    monkeypatch.setattr(dist, "get_rank", lambda: 1)
    monkeypatch.setattr(dist, "barrier", lambda: None)
    monkeypatch.setattr(apart, "_WARM_S", 0.0)
    monkeypatch.setattr(apart, "of_all_workers", lambda own: torch.stack([own, own]))
    monkeypatch.setattr(apart, "first_rank_of_host", lambda: [0, 1])
    monkeypatch.setattr(apart, "sustained", lambda *_, **__: Timing(next(taken), 0.0, 5))

    class Own(Workers):
        def mean(self, values, device):
            return values

    return Own(None)


def test_the_share_is_of_what_is_timed_together(two_hosts):
    """Two thirds, of two hosts."""
    found = shared_machine(GRIDS["quick"], torch.device("cpu"), two_hosts)
    assert found.num_hosts == 2
    assert found.alone_share == pytest.approx(2 / 3)
    assert (found.share(1), found.share(2)) == (pytest.approx(2 / 3), 1.0)
    assert found.num_cores == len(os.sched_getaffinity(0))


def test_under_a_quota_a_share_is_of_what_is_sustained(two_hosts, monkeypatch):
    """Beside others a host also waits for a processor, and may get its share all the same."""
    quota, given = CpuQuota(share=0.6, period_s=0.1), set()

    def timed(*_, quota, **__):
        given.add(quota)
        return Timing(1.0, 0.0, 5)

    monkeypatch.setattr(apart, "sustained", timed)
    shared_machine(GRIDS["quick"], torch.device("cpu"), two_hosts, quota)
    assert given == {quota}


def test_a_machine_of_one_host_has_none():
    """Nothing is timed."""
    assert shared_machine(GRIDS["quick"], torch.device("cpu"), Workers(None)) is None
