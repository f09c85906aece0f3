"""Probes: which points are timed, in what order, and which tables they make, with stand-ins for the timers."""

import pytest
import torch
import torch.distributed as dist

from profiles import probes
from profiles.collectives import CollectiveTiming
from profiles.grids import Grid
from profiles.measure import Timing
from profiles.probes import Probes, Workers

GRID = Grid(axes={}, collective_bytes=(4.0, 8.0, 16.0, 32.0, 64.0), budget_s=0.01)
HOSTS = [0, 0, 2]  # the first two workers share a host


@pytest.fixture
def made(monkeypatch):
    """Probes of rank 1 of three, whose collectives take as many seconds as `taken` says by size."""
    taken = dict.fromkeys(GRID.collective_bytes, 0.01)

    def time_collective(name, num_bytes, device, budget_s, *, port_of):
        return CollectiveTiming(Timing(taken[num_bytes], 0.0, 5), Timing(port_of + 0.5, 0.0, 5))

    monkeypatch.setattr(probes, "time_collective", time_collective)
    monkeypatch.setattr(dist, "get_rank", lambda: 1)
    monkeypatch.setattr(dist, "get_world_size", lambda *_: 3)
    return Probes(GRID, torch.device("cpu"), Workers(None), (), HOSTS), taken


def test_host_holds_the_table_of_its_own_port(made):
    """Two ports are timed, by all workers; the tables of a host name three collectives, the port that of its host."""
    probes, _ = made
    timings = [probe() for probe in probes.of_collectives()]
    assert len(timings) == 4 * len(GRID.collective_bytes)
    tables = probes.collective_tables(timings)
    assert [table.collective for table in tables] == ["all_reduce", "all_to_all", "all_to_all_port"]
    assert {point.median_s for point in tables[2].processor.points} == {0.5}
    assert [point.shape[0] for point in tables[0].table.points] == list(GRID.collective_bytes)


def test_sizes_after_a_long_call_are_left_out_of_every_pass(made):
    """A call of a third of a second at 16 bytes: 32 and 64 bytes are not timed."""
    probes, taken = made
    taken[16.0] = 0.3
    timings = [probe() for probe in probes.of_collectives()]
    assert [bool(timing) for timing in timings] == [True, True, True, False, False] * 4
    assert [len(table.table.points) for table in probes.collective_tables(timings)] == [3, 3, 3]


def test_one_worker_has_no_collectives():
    """Without a process group nothing is timed among workers."""
    assert Probes.of(GRID, torch.device("cpu"), Workers(None), ()).of_collectives() == []
