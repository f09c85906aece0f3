"""Clocks of other machines are found by asking; those of one machine are one clock."""

import time
from datetime import timedelta

import pytest
import torch.distributed as dist
import torch.multiprocessing as mp
from hypothesis import given
from hypothesis import strategies as st

from gnnplan.profiles import clocks
from gnnplan.profiles.clocks import ClockReading, offset_s, on_first_clock, to_first_clock_s


@given(
    st.floats(-1e6, 1e6),
    st.lists(st.tuples(st.floats(1e-5, 1.0), st.floats(0, 1)), min_size=1, max_size=20),
)
def test_an_offset_is_off_by_half_of_the_shortest_trip_at_most(offset, trips):
    """However the two ways share the trip."""
    told = [(float(n), n + length * share + offset, n + length) for n, (length, share) in enumerate(trips)]
    shortest_s = min(length for length, _ in trips)
    assert abs(offset_s(told) - offset) <= shortest_s / 2 + 1e-8


def test_a_worker_alone_has_the_first_clock():
    """There is nobody to ask."""
    assert to_first_clock_s() == 0.0


def test_a_machine_has_one_number_as_long_as_it_runs():
    """Which other processes find too."""
    assert clocks.boot_number() == clocks.boot_number.__wrapped__()
    assert -(2**63) <= clocks.boot_number() < 2**63


@given(st.floats(-1e6, 1e6), st.floats(-1e-4, 1e-4), st.floats(1.0, 1e5), st.floats(0, 1))
def test_a_clock_that_drifts_is_followed_between_two_readings(offset, drift, lasted_s, share):
    """Evenly."""
    begin, end = ClockReading(5.0, offset), ClockReading(5.0 + lasted_s, offset + drift * lasted_s)
    at_s = 5.0 + share * lasted_s
    assert on_first_clock(begin, end)(at_s) == pytest.approx(at_s + offset + drift * share * lasted_s, abs=1e-6)


def _worker(rank, folder):
    """Ranks 1 and 2 are on another machine, whose clock is ahead."""
    ahead_s, real = (1000.0 if rank else 0.0), time.monotonic
    clocks.boot_number = lambda: 1 if rank else 0
    clocks.time = type("time", (), {"monotonic": staticmethod(lambda: real() + ahead_s)})
    store = f"file://{folder}/store"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=3, timeout=timedelta(seconds=60))
    (folder / f"{rank}.txt").write_text(repr(to_first_clock_s()))
    dist.barrier()
    dist.destroy_process_group()


@pytest.mark.long
def test_workers_of_another_machine_find_the_first_ones_clock(tmp_path):
    """To within a few milliseconds on a busy machine; both workers of it are told the same."""
    context = mp.get_context("spawn")
    processes = [context.Process(target=_worker, args=(rank, tmp_path)) for rank in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        assert process.exitcode == 0
    found = [float((tmp_path / f"{rank}.txt").read_text()) for rank in range(3)]
    assert found[0] == 0.0
    assert found[1] == found[2] == pytest.approx(-1000.0, abs=0.1)
