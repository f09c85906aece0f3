"""Timed collectives: the uneven counts fit together, and both run among the workers there are."""

from types import SimpleNamespace
from typing import get_args

import numpy as np
import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st

from gnnplan.profiles import collectives
from gnnplan.profiles.collectives import (
    Collective,
    Pattern,
    counts_of,
    even_counts,
    lasting_s,
    pair_counts,
    port_counts,
    time_collective,
)
from gnnplan.profiles.machine import CpuQuota
from gnnplan.profiles.measure import Timing


@given(st.integers(0, 10**8), st.integers(1, 16))
def test_even_counts_are_the_same_for_all(elements, num_workers):
    """Nobody sends to itself, and everybody sends and receives the elements, up to rounding."""
    counts = np.array(even_counts(elements, num_workers))
    assert counts.shape == (num_workers, num_workers)
    assert not counts.diagonal().any()
    if num_workers > 1:
        assert len(set(counts.sum(0)) | set(counts.sum(1))) == 1
        assert elements - num_workers < counts[0].sum() <= elements


@given(st.integers(0, 10**6), st.integers(2, 8), st.data())
def test_a_port_is_alone(elements, num_workers, data):
    """One worker sends and receives as in the even pattern; the others have business with it alone."""
    port = data.draw(st.integers(0, num_workers - 1))
    counts, even = np.array(port_counts(elements, num_workers, port)), np.array(even_counts(elements, num_workers))
    assert (counts[port] == even[port]).all()
    assert (counts[:, port] == even[:, port]).all()
    assert counts.sum() == counts[port].sum() + counts[:, port].sum()


@given(st.integers(0, 10**6), st.integers(2, 8), st.data())
def test_a_pair_is_alone(elements, num_workers, data):
    """Two workers send each other the elements, and nobody else anything."""
    first, second = data.draw(st.permutations(range(num_workers)))[:2]
    counts = np.array(pair_counts(elements, num_workers, first, second))
    assert counts[first, second] == counts[second, first] == elements
    assert counts.sum() == 2 * elements


def test_a_pattern_has_its_counts():
    """By its name and ranks."""
    assert counts_of(Pattern("all_to_all"), 6, 3) == even_counts(6, 3)
    assert counts_of(Pattern("all_to_all_port", (1,)), 6, 3) == port_counts(6, 3, 1)
    assert counts_of(Pattern("all_to_all_pair", (2, 0)), 6, 3) == pair_counts(6, 3, 0, 2)


@pytest.fixture
def alone(tmp_path):
    """A gloo group of this process alone."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    yield torch.device("cpu")
    dist.destroy_process_group()


@pytest.mark.parametrize("name", get_args(Collective))
@pytest.mark.parametrize("num_bytes", [4.0, 4096.0])
def test_a_timing_rests_on_several_calls(alone, name, num_bytes):
    """A timing is positive and has five calls at least, forty at most."""
    ranks = {"all_to_all_port": (0,), "all_to_all_pair": (0, 0)}.get(name, ())
    elapsed, processor = time_collective(Pattern(name, ranks), num_bytes, alone, 1e-4)
    assert elapsed.median_s > 0
    assert elapsed.spread_s >= 0
    assert 5 <= elapsed.repeats <= 40
    assert processor.median_s >= 0


def test_the_mean_of_calls_counts(alone, monkeypatch):
    """Where half of the calls wait for a core, what they take on average; their spread is that of single calls."""
    calls = [(1.0, 5.0, 5.0, 1.0) * 10]
    monkeypatch.setattr(collectives, "_clocked_together", lambda *_: (list(calls[0]), 0.5))
    elapsed, processor = time_collective(Pattern("all_reduce"), 4.0, alone, 1e-4)
    assert elapsed == Timing(3.0, 4.0, 40)
    assert processor.median_s == 0.5
    calls[0] = (1.0,) * 39 + (1000.0,)
    assert time_collective(Pattern("all_reduce"), 4.0, alone, 1e-4).elapsed.median_s == 1.0, "once is never"


def test_workers_compute_before_every_call(alone, monkeypatch):
    """As in training, before the first one too, which says how many there are."""
    computed = []
    monkeypatch.setattr(collectives, "_computing", lambda _: lambda: computed.append(dist.get_rank()))
    elapsed, _ = time_collective(Pattern("all_reduce"), 4.0, alone, 1e-4)
    assert len(computed) == 1 + elapsed.repeats


@pytest.mark.parametrize("quota", [None, CpuQuota(share=0.4, period_s=0.01)])
def test_a_worker_computes_until_a_quota_has_held_it_up(alone, monkeypatch, quota):
    """So that calls come in any part of a period; without a quota for more than a tick of the kernel, 4 ms."""
    clock = SimpleNamespace(now_s=0.0)
    read = {name: lambda: clock.now_s for name in ("monotonic", "thread_time")}

    def spent(*_):
        clock.now_s += 1e-4

    monkeypatch.setattr(collectives, "time", SimpleNamespace(**read))
    monkeypatch.setattr(collectives.torch, "mm", spent)
    compute = collectives._computing(quota)
    taken_s = []
    for _ in range(50):
        begun_s = clock.now_s
        compute()
        taken_s.append(clock.now_s - begun_s)
    least_s, most_s = (6e-3, 11e-3) if quota else (5e-3, 5.5e-3)
    assert least_s <= min(taken_s) < max(taken_s) <= most_s + 2e-4
    assert not quota or max(taken_s) - min(taken_s) > quota.share * quota.period_s * 0.9


def test_a_call_lasts_from_the_last_coming_to_the_mean_end():
    """Of a port to its own end; of a pair whoever else comes late does not count."""
    times = np.array([[[0.0, 5.0]], [[2.0, 7.0]], [[3.0, 6.0]]])
    assert lasting_s(Pattern("all_reduce"), times) == [3.0]
    assert lasting_s(Pattern("all_to_all_port", (1,)), times) == [4.0]
    assert lasting_s(Pattern("all_to_all_pair", (0, 1)), times) == [4.0]
    ended_before = np.array([[[0.0, 1.0]], [[2.0, 2.5]]])
    assert lasting_s(Pattern("all_to_all"), ended_before) == [1e-9]
