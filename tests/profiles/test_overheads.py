"""Host overheads: never negative, and the base memory counts what the calls bring in."""

import pytest
import torch

from gnnplan.profiles import overheads
from gnnplan.profiles.kernels import pool
from gnnplan.profiles.overheads import resident_bytes, step_overhead_s, task_overhead_s, use_everything_else

CPU = torch.device("cpu")
_NUM_BYTES = 2**28


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


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_overheads_beside_a_gpu_are_positive():
    """Though its backward runs in another thread, whose processor time is another."""
    assert 0 < task_overhead_s(torch.device("cuda", 0)) < 1
    assert 0 < step_overhead_s(torch.device("cuda", 0)) < 1


def test_what_waits_to_be_used_again_is_not_resident():
    """What is held counts in bytes, and nothing of it when it is dropped."""
    before = resident_bytes()
    held = pool.empty(CPU, _NUM_BYTES // 4).fill_(1)
    assert resident_bytes() == pytest.approx(before + _NUM_BYTES, rel=0.1)
    del held
    assert resident_bytes() == pytest.approx(before, rel=0.1)


def test_everything_else_is_used_without_other_workers():
    """A worker on its own has no collectives."""
    use_everything_else(CPU)
