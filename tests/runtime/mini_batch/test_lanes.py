"""Lanes run what they are given, one after another, and tell of every end."""

import threading
import time

import pytest

from gnnplan.runtime.mini_batch.lanes import Lanes, StageFailedError


def alive():
    """Names of the lanes' threads that run."""
    return {thread.name for thread in threading.enumerate()} & {"a", "b"}


def test_a_lane_keeps_its_order_and_lanes_run_side_by_side():
    """Lane b ends while a still waits for it."""
    gate = threading.Event()
    with Lanes(("a", "b"), 20) as lanes:
        lanes.begin("a", "wait", 0, lambda: gate.wait(10))
        lanes.begin("b", "open", 1, gate.set)
        ended = [lanes.wait() for _ in range(2)]
        lanes.begin("a", "first", 2, lambda: "x")
        assert {(e.stage, e.batch) for e in ended} == {("wait", 0), ("open", 1)}
        first = lanes.wait()
        assert (first.stage, first.batch, first.result) == ("first", 2, "x")
        assert first.start_s <= first.end_s
    assert not alive()


def test_handing_over_is_part_of_a_stage():
    """One begins when the end that let it begin is known, and ends when its own is, though threads dawdle."""
    with Lanes(("a", "b"), 20) as lanes:
        lanes.begin("a", "first", 0, lambda: None)
        first = lanes.wait()
        time.sleep(0.05)
        lanes.begin("a", "second", 1, lambda: None)
        time.sleep(0.05)
        second = lanes.wait()
    assert second.start_s == first.end_s
    assert second.end_s - second.start_s >= 0.1


def test_a_stage_may_run_at_once():
    """It has ended before anybody waits, and one that raises is told of as any other."""
    with Lanes(("a",), 20) as lanes:
        lanes.at_once("move", 1, lambda: threading.get_ident())
        assert lanes.wait().result == threading.get_ident()
        lanes.at_once("move", 2, lambda: 1 // 0)
        with pytest.raises(StageFailedError, match="move of batch 2 failed: ZeroDivisionError"):
            lanes.wait()


def run(stage, batch, call, timeout_s):
    """One stage alone on a lane, waited for."""
    with Lanes(("a", "b"), timeout_s) as lanes:
        lanes.begin("a", stage, batch, call)
        lanes.wait()


def test_a_stage_that_raises_is_named_with_its_batch_and_cause():
    """And the threads end."""
    with pytest.raises(StageFailedError, match="sample of batch 7 failed: ZeroDivisionError") as caught:
        run("sample", 7, lambda: 1 // 0, 20)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert not alive()


def test_a_stage_that_does_not_end_is_named():
    """After the timeout, not after for ever."""
    gate = threading.Event()
    with pytest.raises(StageFailedError, match="nothing ended in 0 s; under way: sleep of batch 3"):
        run("sleep", 3, lambda: gate.wait(1), 0.05)
    assert not alive()
