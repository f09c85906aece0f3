"""Host overheads: never negative, and the base memory counts what the calls bring in."""

import resource

import pytest
import torch

from profiles import overheads
from profiles.overheads import process_base_bytes, step_overhead_s, task_overhead_s

CPU = torch.device("cpu")


def test_overheads_are_positive():
    """An autograd task costs more than its bare operators, and a step costs something."""
    assert task_overhead_s(CPU) > 0
    assert step_overhead_s(CPU) > 0


def test_task_overhead_is_what_exceeds_the_operators(monkeypatch):
    """The overhead is (chain - bare) over the 2 * 32 tasks, and zero where noise makes it negative."""
    times_s = iter([6.5, 0.1, 1.0, 2.0])
    monkeypatch.setattr(overheads, "_median", lambda call, device: next(times_s))
    assert task_overhead_s(CPU) == pytest.approx(0.1)
    assert task_overhead_s(CPU) == 0.0


def test_base_bytes_count_what_the_calls_touch():
    """Every call is made once and the peak is this process's own high-water mark, in bytes."""
    touched = []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    base = process_base_bytes([lambda: touched.append("a"), lambda: touched.append("b")], CPU)
    assert touched == ["a", "b"]
    assert before <= base <= resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert base > 2**26
