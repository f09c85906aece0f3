"""Ordered work by threads: order, bound, errors and ends, whatever the threads do."""

import gc
import itertools
import subprocess
import sys
import threading
import time

import pytest

from gnnplan.profiles.errors import RunFailedError
from gnnplan.runtime.sampling.pipeline import OrderedPipeline


def threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("gnnplan-sampling")]


def ended_within(seconds):
    """Whether all sampling threads are gone within the time."""
    deadline_s = time.monotonic() + seconds
    while threads() and time.monotonic() < deadline_s:
        time.sleep(0.01)
    return not threads()


def slow_when_even(index):
    time.sleep(0.004 if index % 2 == 0 else 0)
    return index * index


@pytest.mark.parametrize("num_threads", [1, 2, 5])
def test_items_come_in_order(num_threads):
    """All items, in order, though later ones are ready earlier; then the threads are gone."""
    items = list(OrderedPipeline(slow_when_even, 40, num_threads=num_threads, max_in_flight=8))
    assert items == [i * i for i in range(40)]
    assert not threads()


def test_no_items():
    """Nothing to make ends at once and starts no thread."""
    assert list(OrderedPipeline(slow_when_even, 0, num_threads=2, max_in_flight=2)) == []


def test_items_ahead_are_bounded():
    """A consumer that waits finds at most max_in_flight more items begun than it took."""
    begun = itertools.count()
    with_count = OrderedPipeline(lambda index: next(begun), 100, num_threads=3, max_in_flight=4)
    for _ in range(6):
        next(with_count)
    time.sleep(0.1)
    with_count.close()
    assert 6 <= next(begun) <= 6 + 4


def test_error_comes_in_its_place():
    """Items before the failed one are handed out, then its error with the cause; the threads end."""

    def make(index):
        if index == 3:
            raise ValueError("bad vertex")
        return index

    pipeline = OrderedPipeline(make, 1000, num_threads=2, max_in_flight=4)
    assert [next(pipeline) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(RunFailedError, match="sampling batch 3 failed: ValueError: bad vertex") as caught:
        next(pipeline)
    assert isinstance(caught.value.__cause__, ValueError)
    assert not threads()
    with pytest.raises(StopIteration):
        next(pipeline)


def test_close_ends_the_threads():
    """After close no thread runs and there is no next item; closing again does nothing."""
    pipeline = OrderedPipeline(slow_when_even, 1000, num_threads=3, max_in_flight=6)
    assert next(pipeline) == 0
    pipeline.close()
    assert not threads()
    assert list(pipeline) == []
    pipeline.close()


def test_dropped_iterator_ends_the_threads():
    """An iterator that a broken loop leaves behind is collected and its threads end."""
    for _ in OrderedPipeline(slow_when_even, 1000, num_threads=3, max_in_flight=6):
        break
    gc.collect()
    assert ended_within(5)


def test_dead_threads_are_noticed(monkeypatch):
    """A consumer whose threads are all gone gets an error instead of waiting for ever."""
    monkeypatch.setattr("gnnplan.runtime.sampling.pipeline._work", lambda shared, make: None)
    with pytest.raises(RunFailedError, match="ended without making batch 0"):
        next(OrderedPipeline(slow_when_even, 3, num_threads=2, max_in_flight=2))


def test_an_item_that_does_not_come_in_time_ends_the_iteration(monkeypatch):
    """Its thread is left behind after a while; nobody waits for ever."""
    monkeypatch.setattr("gnnplan.runtime.sampling.pipeline._JOIN_S", 0.1)
    gate = threading.Event()
    pipeline = OrderedPipeline(lambda index: index or gate.wait(60), 3, num_threads=2, max_in_flight=3, timeout_s=0.2)
    try:
        with pytest.raises(RunFailedError, match=r"^batch 0 was not sampled within 0\.2 s$"):
            next(pipeline)
        with pytest.raises(StopIteration):
            next(pipeline)
    finally:
        gate.set()
    assert ended_within(5)


@pytest.mark.long
def test_process_ends_with_threads_at_work():
    """A script that ends in the middle of an iteration ends at once, without a word and with code 0."""
    script = """
import torch
from gnnplan.runtime.sampling.pipeline import OrderedPipeline
def make(index):
    return torch.randn(300, 300) @ torch.randn(300, 300)
pipeline = OrderedPipeline(make, 10**6, num_threads=4, max_in_flight=99)
next(pipeline)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
