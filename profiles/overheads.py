"""Host seconds that belong to no operator: Python and autograd around each task, and each step."""

from __future__ import annotations

import resource
import time
from contextlib import suppress
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from gnnplan.profiles.kernels import pool
from gnnplan.profiles.kernels.heap import return_freed_memory
from gnnplan.profiles.kernels.optimizer_step import adam_step
from gnnplan.profiles.measure import SWEPT_ELEMENTS

_CHAIN = 8
_REPEATS = 8


class _Touch(torch.autograd.Function):
    """A task with its own clock: when its operator began and ended."""

    @staticmethod
    def forward(ctx, x: Tensor, clock: _Clock) -> Tensor:
        ctx.clock = clock
        ctx.save_for_backward(x)
        clock.operate()
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad: Tensor):
        (_,) = ctx.saved_tensors
        ctx.clock.operate()
        return grad, None


class _Clock:
    """Operators that sweep the caches, and the seconds between them.

    They are processor seconds of this thread. Beside a GPU backward runs in another one, so there all seconds count.
    """

    def __init__(self, device: torch.device, num_elements: int) -> None:
        self.source = torch.zeros(num_elements, device=device)
        self.target = torch.zeros_like(self.source)
        self._now_s = time.perf_counter if device.type == "cuda" else time.thread_time
        self.restart()

    def restart(self) -> None:
        """Forgets what was timed; what lies before the next operator is not counted."""
        self._spent_s, self._num_spent, self._ended_s = 0.0, 0, -1.0

    def operate(self) -> None:
        """One operator; the time since the last one is what a task costs beyond its operator."""
        if self._ended_s >= 0:
            self._spent_s += self._now_s() - self._ended_s
            self._num_spent += 1
        self.target.copy_(self.source)
        self._ended_s = self._now_s()

    @property
    def mean_s(self) -> float:
        """Seconds from one operator's end to the next one's begin."""
        return self._spent_s / self._num_spent


def use_everything_else(device: torch.device) -> None:
    """Uses once, on next to nothing, what a worker needs besides operators: what libraries load then counts as its."""
    task_overhead_s(device, num_swept=1)
    step_overhead_s(device, num_swept=1)
    if dist.is_initialized():
        tiny = torch.zeros(dist.get_world_size(), device=device)
        dist.all_reduce(tiny)
        dist.all_to_all_single(torch.empty_like(tiny), tiny)


def resident_bytes() -> int:
    """Of this process now, without memory that waits to be used again; where Linux does not tell, the most so far."""
    pool.release()
    return_freed_memory()
    with suppress(OSError):
        num_pages = Path("/proc/self/statm").read_text().split()[1]
        return int(num_pages) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def task_overhead_s(device: torch.device, *, num_swept: int = SWEPT_ELEMENTS) -> float:
    """Seconds of Python and autograd from one task's operator to the next, mean over forward and backward.

    On a CPU it is processor time, so that neither a quota's stall nor another process is in it. On CUDA the operators
    run behind, so what is timed is how fast they are launched.
    """
    x, clock = torch.zeros(1, device=device, requires_grad=True), _Clock(device, num_swept)
    for repeat in range(_REPEATS):
        if repeat == 1:  # the first is a warm-up
            clock.restart()
        value = x
        for _ in range(_CHAIN):
            value = _Touch.apply(value, clock)
        value.backward()
    return clock.mean_s


def step_overhead_s(device: torch.device, *, num_swept: int = SWEPT_ELEMENTS) -> float:
    """Seconds a training step costs beyond its tasks: an optimizer call on nothing, with cold caches."""
    parameter, grad, mean, square, step = torch.zeros(5, 1, device=device)
    clock = _Clock(device, num_swept)
    for repeat in range(_REPEATS):
        if repeat == 1:
            clock.restart()
        clock.operate()
        adam_step([parameter], [grad], [mean], [square], [step[0]], rate=1e-9)
        grad.zero_()
    clock.operate()
    return clock.mean_s
