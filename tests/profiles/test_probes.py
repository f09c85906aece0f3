"""Probes: which points are timed, in what order, and which tables they make, with stand-ins for the timers."""

import pytest
import torch
import torch.distributed as dist

from gnnplan.profiles import probes
from gnnplan.profiles.collectives import CollectiveTiming
from gnnplan.profiles.grids import Grid
from gnnplan.profiles.measure import Timing
from gnnplan.profiles.probes import Probes, Workers, pair_sizes

GRID = Grid(axes={}, collective_bytes=(4.0, 8.0, 16.0, 32.0, 64.0), budget_s=0.01)
HOSTS = [0, 0, 2]  # the first two workers share a host


@pytest.fixture
def made(monkeypatch):
    """Probes of rank 1 of three, whose collectives take as many seconds as `taken` says by size."""
    taken = dict.fromkeys(GRID.collective_bytes, 0.01)

    def time_collective(pattern, num_bytes, *_):
        return CollectiveTiming(Timing(taken[num_bytes], 0.0, 5), Timing(sum(pattern.ranks) + 0.5, 0.0, 5))

    monkeypatch.setattr(probes, "time_collective", time_collective)
    monkeypatch.setattr(dist, "get_rank", lambda: 1)
    monkeypatch.setattr(dist, "get_world_size", lambda *_: 3)
    return Probes(GRID, torch.device("cpu"), Workers(None), (), HOSTS), taken


def called(probes):
    """What all probes return, those of pairs last."""
    return [probe() for points in (probes.of_collectives(), probes.of_pairs()) for probe in points]


def test_host_holds_the_tables_of_its_own_port_and_pairs(made):
    """Two ports and two pairs are timed, by all workers; a host has its port's table, and of each pair it is in."""
    probes, _ = made
    timings = called(probes)
    assert len(timings) == 6 * len(GRID.collective_bytes)
    tables = probes.collective_tables(timings)
    names = ["all_reduce", "all_to_all", "all_to_all_port", "all_to_all_pair", "all_to_all_pair"]
    assert [table.collective for table in tables] == names
    assert [table.peer for table in tables] == [None, None, None, 1, 0], "the other host, then two workers of this one"
    assert {point.median_s for point in tables[2].processor.points} == {0.5}
    assert all(table.processor is None for table in tables[3:])
    assert [point.shape[0] for point in tables[0].table.points] == list(GRID.collective_bytes)


def test_another_host_has_other_pairs(made, monkeypatch):
    """The third worker is alone on its host: one pair, with the first host."""
    probes, _ = made
    monkeypatch.setattr(dist, "get_rank", lambda: 2)
    pairs = [t for t in probes.collective_tables(called(probes)) if t.collective == "all_to_all_pair"]
    assert [table.peer for table in pairs] == [0]


def test_sizes_after_a_long_call_are_left_out_of_every_pass(made):
    """A call of a third of a second at 16 bytes: 32 and 64 bytes are not timed, nor is any of them again."""
    probes, taken = made
    taken[16.0] = 0.3
    points = probes.of_collectives()
    for _ in range(2):
        timings = [probe() for probe in points]
        assert [bool(timing) for timing in timings] == [True, True, True, False, False] * 4
    tables = probes.collective_tables(timings + [probe() for probe in probes.of_pairs()])
    assert [len(table.table.points) for table in tables] == [3, 3, 3, 2, 2]


def test_pairs_are_timed_at_a_few_of_the_sizes_of_all(made):
    """Every other one from the largest, and the smallest; of both ranks, whoever is timed."""
    probes, _ = made
    timings = called(probes)[-2 * len(GRID.collective_bytes) :]
    assert [bool(timing) for timing in timings] == [True, False, True, False, True] * 2


@pytest.mark.parametrize(
    ("even_s", "most_s", "expected"),
    [
        ([0.001, 0.001, 0.004, 0.016, 0.06, 0.25, 0.9], 1.0, {0, 2, 4, 6}),
        ([0.001, 0.001, 0.004, 0.016, 0.06, 0.25, 0.9], 0.5, {0, 1, 3, 5}),
        ([0.001, 0.001, 0.004, 0.016, 0.06, 0.25, 0.9], 0.0, {0, 2}),
        ([0.1, 2.0], 1.0, {0, 1}),
        ([0.1], 1.0, {0}),
    ],
)
def test_the_largest_size_of_pairs_is_one_there_is_time_for(even_s, most_s, expected):
    """The third at least, where there are as many."""
    assert pair_sizes(even_s, most_s) == expected


@pytest.mark.parametrize(("num_hosts", "num_pairs"), [(2, 0), (3, 3), (4, 6), (8, 28), (9, 0)])
def test_the_time_for_pairs_is_bounded(num_hosts, num_pairs, made, monkeypatch):
    """Calls of one size take at most two minutes in all, whatever the links are; of many hosts no pairs are timed."""
    _, taken = made
    called_s = []

    def time_collective(pattern, num_bytes, *_):
        seconds = taken[num_bytes]
        if pattern.name == "all_to_all_pair" and num_bytes > 16.0:
            called_s.append(7 * seconds)
        return CollectiveTiming(Timing(seconds, 0.0, 5), Timing(0.0, 0.0, 5))

    taken.update({4.0: 0.001, 8.0: 0.01, 16.0: 0.1, 32.0: 0.19, 64.0: 3.0})
    monkeypatch.setattr("gnnplan.profiles.probes.time_collective", time_collective)
    probes = Probes(GRID, torch.device("cpu"), Workers(None), (), list(range(num_hosts)))
    points = (probes.of_collectives(), probes.of_pairs())
    assert len(points[1]) == num_pairs * len(GRID.collective_bytes)
    for probe in points[0] + points[1] * probes.num_pair_passes:
        probe()
    assert sum(called_s) <= 120.0


def test_two_workers_are_timed_together_alone():
    """No port and no pair is anything else than both of them."""
    probes = Probes(GRID, torch.device("cpu"), Workers(None), (), [0, 0])
    assert len(probes.of_collectives()) == 2 * len(GRID.collective_bytes)
    assert probes.of_pairs() == []


def test_one_worker_has_no_collectives():
    """Without a process group nothing is timed among workers."""
    alone = Probes.of(GRID, torch.device("cpu"), Workers(None), ())
    assert alone.of_collectives() == alone.of_pairs() == []


def test_anchors_are_timed_again_at_the_end(monkeypatch):
    """A few points over all operators, beside what they took at first; one that took twice as long has drifted."""
    grid = Grid(axes={"gemm": ((1.0, 2.0, 3.0, 4.0),)}, collective_bytes=(), budget_s=0.01)
    monkeypatch.setattr(Grid, "shapes", lambda self, name: [(float(size),) for size in range(1, 21)])
    monkeypatch.setattr(probes, "timed_call", lambda name, shape, device: shape)
    monkeypatch.setattr(probes, "sustained", lambda call, device, **_: Timing(call[0], 0.0, 3))
    of_two = Probes(grid, torch.device("cpu"), Workers(None), ("gemm", "spmm"))
    first = [timings[0] for timings in (probe() for probe in of_two.of_operators())]
    first[-1] = Timing(10.0, 0.0, 3)
    anchors = of_two.anchors(first)
    assert {anchor.operator for anchor in anchors} == {"gemm", "spmm"}
    assert [(anchor.operator, anchor.first_s, anchor.again_s) for anchor in anchors if anchor.has_drifted] == [
        ("spmm", 10.0, 20.0)
    ]


def test_nothing_is_timed_again_where_nothing_was():
    """As of a grid without operators."""
    assert Probes(GRID, torch.device("cpu"), Workers(None), ()).anchors([]) == ()
