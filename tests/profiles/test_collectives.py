"""Timed collectives: the uneven counts fit together, and both run among the workers there are."""

import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st

from profiles.collectives import COLLECTIVES, time_collective, uneven_counts


@given(st.integers(0, 10**8), st.integers(1, 16))
def test_counts_are_uneven_but_consistent(busiest, num_workers):
    """Nobody sends to itself, rank 0 sends `busiest` up to rounding and the most, later ranks no more."""
    counts = uneven_counts(busiest, num_workers)
    assert [len(row) for row in counts] == [num_workers] * num_workers
    assert all(counts[p][p] == 0 and min(counts[p]) >= 0 for p in range(num_workers))
    totals = [sum(row) for row in counts]
    assert totals == sorted(totals, reverse=True)
    if num_workers > 1:
        assert busiest - num_workers < totals[0] <= busiest
        assert abs(totals[-1] - busiest / 2) <= num_workers


@given(st.integers(0, 10**6), st.integers(1, 8))
def test_what_is_sent_is_received(busiest, num_workers):
    """Over all workers, rows sent equal rows received: the table read by columns."""
    counts = uneven_counts(busiest, num_workers)
    received = [sum(row[rank] for row in counts) for rank in range(num_workers)]
    assert sum(received) == sum(map(sum, counts))


@pytest.fixture
def alone(tmp_path):
    """A gloo group of this process alone."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    yield torch.device("cpu")
    dist.destroy_process_group()


@pytest.mark.parametrize("name", COLLECTIVES)
@pytest.mark.parametrize("num_bytes", [4.0, 4096.0])
def test_collective_is_timed_in_equal_groups(alone, name, num_bytes):
    """A timing is positive and rests on five equal groups of calls, two at least each."""
    timing = time_collective(name, num_bytes, alone, 1e-4)
    assert timing.median_s > 0
    assert timing.spread_s >= 0
    assert timing.repeats >= 10
    assert timing.repeats % 5 == 0
