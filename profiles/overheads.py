"""Host seconds that belong to no operator: Python and autograd around each task, and each step."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterable

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

_CHAIN = 8
_REPEATS = 8
_SWEPT_ELEMENTS = 2**22  # 16 MiB: an operator between two tasks sweeps Python out of the caches


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
    def __init__(self, device: torch.device, num_elements: int) -> None:
        self.source = torch.zeros(num_elements, device=device)
        self.target = torch.zeros_like(self.source)
        self.between_s: list[float] = []
        self._ended_s: float | None = None

    def restart(self) -> None:
        """What lies before the next operator is not counted."""
        self._ended_s = None

    def operate(self) -> None:
        """One operator; the time since the last one is what a task costs beyond its operator."""
        if self._ended_s is not None:
            self.between_s.append(time.perf_counter() - self._ended_s)
        self.target.copy_(self.source)
        self._ended_s = time.perf_counter()


def process_base_bytes(calls: Iterable[Callable[[], object]], device: torch.device) -> int:
    """Peak resident bytes of a worker that has used everything once, on next to nothing.

    Libraries come in when first used: torch's optimizers alone import a hundred megabytes of
    Python. `calls` are the operators on their smallest shapes.
    """
    for call in calls:
        call()
    task_overhead_s(device, num_swept=1)
    step_overhead_s(device)
    if dist.is_initialized():
        tiny = torch.zeros(dist.get_world_size(), device=device)
        dist.all_reduce(tiny)
        dist.all_to_all_single(torch.empty_like(tiny), tiny)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def task_overhead_s(device: torch.device, *, num_swept: int = _SWEPT_ELEMENTS) -> float:
    """Seconds of Python and autograd from one task's operator to the next, median over forward and backward.

    Processor time: a quota's stall that falls between two tasks is not in the median. On CUDA the
    operators run behind, so what is timed is how fast they are launched.
    """
    x, clock = torch.zeros(1, device=device, requires_grad=True), _Clock(device, num_swept)
    for repeat in range(_REPEATS):
        if repeat == 1:  # the first is a warm-up
            clock.between_s.clear()
        clock.restart()
        value = x
        for _ in range(_CHAIN):
            value = _Touch.apply(value, clock)
        value.backward()
    return float(np.median(clock.between_s))


def step_overhead_s(device: torch.device) -> float:
    """Seconds a training step costs beyond its tasks: clearing gradients and an optimizer call on nothing."""
    parameter = torch.nn.Parameter(torch.zeros(1, device=device))
    parameter.grad = torch.zeros_like(parameter)
    optimizer = torch.optim.SGD([parameter], lr=1e-9)

    def step() -> None:
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)

    return _median(step, device)


def _median(call, device: torch.device) -> float:
    samples = []
    for _ in range(_REPEATS):
        start_s = time.perf_counter()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        samples.append(time.perf_counter() - start_s)
    return float(np.median(samples[2:]))
