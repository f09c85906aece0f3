"""All-reduce and all-to-all of the backend in use, timed among the actual workers.

An uneven all-to-all is bound by the links that its rows pass and by what all workers share. Patterns of
it measure these: `all_to_all_pair`, where two workers alone send each other rows, `all_to_all_port`, where
one does with all others, and `all_to_all`, where everyone does.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
import torch.distributed as dist

from gnnplan.profiles.exchange import all_to_all
from gnnplan.profiles.machine import CpuQuota
from gnnplan.profiles.measure import SWEPT_ELEMENTS, Timing, clocked

Collective = Literal["all_reduce", "all_to_all", "all_to_all_port", "all_to_all_pair"]
_MIN_CALLS, _MAX_CALLS = 5, 40
_GROUPS = 5
_COMPUTED_S = 5e-3  # longer than a tick of usual kernels, 4 ms
_COMPUTED_SHARE = 0.3  # of the processor time of a quota's period at most
_USED_SHARE = 0.7  # of a quota
_MATRIX_SIZE = 192


class Pattern(NamedTuple):
    """A collective, and of a port or a pair the rank or the two ranks whose rows travel."""

    name: Collective
    ranks: tuple[int, ...] = ()


class CollectiveTiming(NamedTuple):
    """Of one call: its seconds at the worker that took longest, and this worker's processor seconds.

    The latter are a mean, without spread: what the backend's own threads do for a call may come after it.
    """

    elapsed: Timing
    processor: Timing


def time_collective(
    pattern: Pattern, num_bytes: float, device: torch.device, budget_s: float, quota: CpuQuota | None = None
) -> CollectiveTiming:
    """Times one collective among all workers; every worker must call this with the same arguments.

    Each call begins together and is timed at the worker that ends last. On a CPU a worker computes before it, as in
    training: then the rows to send have left the caches, and where other workers keep the cores busy a thread of the
    backend may wait for one until a tick of the kernel. Some calls wait and some do not, and an epoch has several, so
    the mean counts; the spread is of single calls (`benchmarks/in_training.py`). Under a quota a worker computes for
    less and rests before it, so that no call stands still for want of processor time: that is simulated.

    Args:
        num_bytes: of the buffer reduced, or of the rows that every worker (`all_to_all`) or those of the
            pattern send, and receive, in all.
        quota: of this worker's threads.
    """
    make = _all_reduce if pattern.name == "all_reduce" else _all_to_all
    call = make(pattern, num_bytes, device)
    compute = _computing(quota) if device.type == "cpu" else lambda: None
    call()
    first_s, _ = _clocked_together(call, compute, device, 1)
    # All workers must make the same number of calls, so the count is agreed on, not timed out.
    wanted = torch.tensor([min(float(_MAX_CALLS), max(float(_MIN_CALLS), budget_s / max(first_s[0], 1e-6)))])
    wanted = wanted.to(device)
    dist.all_reduce(wanted, op=dist.ReduceOp.MIN)
    samples, processor_s = _clocked_together(call, compute, device, int(wanted))
    low, high = np.percentile(samples, [25, 75])
    elapsed = Timing(_middle_s(samples), float(high - low), len(samples))
    return CollectiveTiming(elapsed, Timing(processor_s, 0.0, len(samples)))


def _middle_s(samples: Sequence[float]) -> float:
    """Their mean, but that of a group of them: a stall of the machine is in one."""
    return float(np.median([np.mean(group) for group in np.array_split(samples, _GROUPS)]))


def _computing(quota: CpuQuota | None) -> Callable[[], None]:
    """Products that stay in the caches for a while, then a sweep through memory; under a quota a rest before."""
    matrix = torch.full((_MATRIX_SIZE, _MATRIX_SIZE), 1 / _MATRIX_SIZE)
    swept = torch.zeros(SWEPT_ELEMENTS)
    num_cores = quota.share * torch.get_num_threads() if quota else math.inf
    computed_s = min(_COMPUTED_S, _COMPUTED_SHARE * num_cores * quota.period_s) if quota else _COMPUTED_S
    rest = _resting(_USED_SHARE * num_cores)

    def compute() -> None:
        rest()
        until_s = time.monotonic() + computed_s
        while time.monotonic() < until_s:
            torch.mm(matrix, matrix)
        swept.add_(1)

    return compute


def _resting(num_cores: float) -> Callable[[], None]:
    """Sleeps until this process has used no more than `num_cores` since it last did."""
    since_s, used_s = time.monotonic(), time.process_time()

    def rest() -> None:
        nonlocal since_s, used_s
        left_s = (time.process_time() - used_s) / num_cores - (time.monotonic() - since_s)
        if left_s > 0:
            time.sleep(left_s)
        since_s, used_s = time.monotonic(), time.process_time()

    return rest


def _clocked_together(
    call: Callable[[], object], compute: Callable[[], None], device: torch.device, count: int
) -> tuple[list[float], float]:
    """Of `count` calls the seconds of each at the worker that took longest, and this one's mean processor seconds."""
    samples, computed_s = [], 0.0
    begun_s = time.process_time()
    for _ in range(count):
        compute_s = time.thread_time()
        compute()
        computed_s += time.thread_time() - compute_s
        dist.barrier()
        samples.append(clocked(call, device, 1))
    dist.barrier()
    calls_s = time.process_time() - begun_s - computed_s
    begun_s = time.process_time()
    for _ in range(count + 1):
        dist.barrier()
    barriers_s = time.process_time() - begun_s
    slowest = torch.tensor(samples, dtype=torch.float64, device=device)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return slowest.tolist(), max(calls_s - barriers_s, 0.0) / count


def _all_reduce(_: Pattern, num_bytes: float, device: torch.device) -> Callable[[], object]:
    buffer = torch.zeros(max(1, int(num_bytes) // 4), device=device)
    return lambda: dist.all_reduce(buffer)


def _all_to_all(pattern: Pattern, num_bytes: float, device: torch.device) -> Callable[[], object]:
    rank, size = dist.get_rank(), dist.get_world_size()
    counts = counts_of(pattern, max(size, int(num_bytes) // 4), size)
    send, recv = counts[rank], [row[rank] for row in counts]
    source, out = torch.zeros(sum(send), device=device), torch.zeros(sum(recv), device=device)
    return lambda: all_to_all(out, source, recv, send)


def counts_of(pattern: Pattern, elements: int, num_workers: int) -> list[list[int]]:
    """Elements worker p sends to q in a pattern of the all-to-all."""
    if pattern.name == "all_to_all_port":
        return port_counts(elements, num_workers, *pattern.ranks)
    if pattern.name == "all_to_all_pair":
        return pair_counts(elements, num_workers, *pattern.ranks)
    return even_counts(elements, num_workers)


def even_counts(elements: int, num_workers: int) -> list[list[int]]:
    """Elements worker p sends to q: `elements` in all, the same to each, nobody to itself."""
    share = elements // max(1, num_workers - 1)
    return [[0 if p == q else share for q in range(num_workers)] for p in range(num_workers)]


def port_counts(elements: int, num_workers: int, port_of: int) -> list[list[int]]:
    """The same for worker `port_of` alone: what neither comes from it nor goes to it is nothing."""
    even = even_counts(elements, num_workers)
    return [[even[p][q] if port_of in (p, q) else 0 for q in range(num_workers)] for p in range(num_workers)]


def pair_counts(elements: int, num_workers: int, first: int, second: int) -> list[list[int]]:
    """`elements` each way between two workers, and nothing else."""
    both = {first, second}
    return [[elements if p != q and {p, q} == both else 0 for q in range(num_workers)] for p in range(num_workers)]
