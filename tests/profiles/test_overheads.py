"""Host overheads: never negative, and the base memory counts what the calls bring in."""

import resource

import pytest
import torch

from gnnplan.profiles import overheads
from gnnplan.profiles.overheads import process_base_bytes, step_overhead_s, task_overhead_s

CPU = torch.device("cpu")


def test_overheads_are_positive():
    """An autograd task costs more than its bare operators, and a step costs something."""
    assert task_overhead_s(CPU) > 0
    assert step_overhead_s(CPU) > 0


def test_task_overhead_is_the_time_between_operators(monkeypatch):
    """On a clock that goes on by one at every look, an operator's end and the next one's begin are one apart."""

    class Ticks:
        now_s = 0.0

        def thread_time(self):
            self.now_s += 1.0
            return self.now_s

    monkeypatch.setattr(overheads, "time", Ticks())
    assert task_overhead_s(CPU, num_swept=1) == pytest.approx(1.0)


def test_base_bytes_count_what_the_calls_touch():
    """Every call is made once and the peak is this process's own high-water mark, in bytes."""
    touched = []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    base = process_base_bytes([lambda: touched.append("a"), lambda: touched.append("b")], CPU)
    assert touched == ["a", "b"]
    assert before <= base <= resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert base > 2**26
