"""Host seconds that belong to no operator: Python and autograd around each task, and each step."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterable

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

_CHAIN = 32
_REPEATS = 20


class _Touch(torch.autograd.Function):
    """The smallest task: an autograd function around one tiny operator."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return x + 1

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:
        return grad + 1


def process_base_bytes(calls: Iterable[Callable[[], object]], device: torch.device) -> int:
    """Peak resident bytes of a worker that has used everything once, on next to nothing.

    Libraries come in when first used: torch's optimizers alone import a hundred megabytes of
    Python. `calls` are the operators on their smallest shapes.
    """
    for call in calls:
        call()
    task_overhead_s(device)
    step_overhead_s(device)
    if dist.is_initialized():
        tiny = torch.zeros(dist.get_world_size(), device=device)
        dist.all_reduce(tiny)
        dist.all_to_all_single(torch.empty_like(tiny), tiny)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def task_overhead_s(device: torch.device) -> float:
    """Seconds a task costs beyond its operator, mean over forward and backward."""
    x = torch.zeros(1, device=device, requires_grad=True)

    def chain() -> None:
        value = x
        for _ in range(_CHAIN):
            value = _Touch.apply(value)
        value.backward()

    def bare() -> None:
        value = x.detach()
        for _ in range(2 * _CHAIN):
            value = value + 1

    return max(0.0, _median(chain, device) - _median(bare, device)) / (2 * _CHAIN)


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
