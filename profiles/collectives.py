"""All-reduce and all-to-all of the backend in use, timed among the actual workers.

An uneven all-to-all is bound by the links that its rows pass and by what all workers share. Patterns of
it measure these: `all_to_all_pair`, where two workers alone send each other rows, `all_to_all_port`, where
one does with all others, and `all_to_all`, where everyone does.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
import torch.distributed as dist

from gnnplan.profiles.clocks import of_all_workers, to_first_clock_s
from gnnplan.profiles.exchange import all_to_all
from gnnplan.profiles.machine import CpuQuota
from gnnplan.profiles.measure import SWEPT_ELEMENTS, Timing, clocked

Collective = Literal["all_reduce", "all_to_all", "all_to_all_port", "all_to_all_pair"]
_MIN_CALLS, _MAX_CALLS = 5, 40
_GROUPS = 5
_MOST_S = 3.0  # of a point's calls with what is computed before them
_COMPUTED_S = 5e-3  # longer than a tick of usual kernels, 4 ms
_COMPUTED_PERIODS = 2
_LATE_SHARE = 0.1
_CLOCK_S = 1e-9  # what no clock resolves
_MATRIX_SIZE = 192


class Pattern(NamedTuple):
    """A collective, and of a port or a pair the rank or the two ranks whose rows travel."""

    name: Collective
    ranks: tuple[int, ...] = ()


class CollectiveTiming(NamedTuple):
    """Of one call: its seconds, and this worker's processor seconds.

    The latter are a mean, without spread: what the backend's own threads do for a call may come after it.
    """

    elapsed: Timing
    processor: Timing


def time_collective(
    pattern: Pattern, num_bytes: float, device: torch.device, budget_s: float, quota: CpuQuota | None = None
) -> CollectiveTiming:
    """Times one collective among all workers; every worker must call this with the same arguments.

    A call is timed as training meets it. On a CPU a worker computes before it: then the rows to send have left the
    caches, and where other workers keep the cores busy a thread of the backend may wait for one until a tick of the
    kernel. Under a quota it computes until the quota has held it up, as it has in an epoch. A kernel notices at its
    ticks that a quota is used up, and takes what was used too much from later periods. So a call right after computing
    may stand still at once, and its members end it at different times (`benchmarks/in_training.py`).

    A call lasts from the last worker's coming to its end, in the mean of those whose rows travel: who ends it early
    computes on. Some calls wait and some do not, and an epoch has several, so the mean counts; the spread is of single
    calls.

    Args:
        num_bytes: of the buffer reduced, or of the rows that every worker (`all_to_all`) or those of the
            pattern send, and receive, in all.
        quota: of this worker's threads.
    """
    make = _all_reduce if pattern.name == "all_reduce" else _all_to_all
    call = make(pattern, num_bytes, device)
    compute = _computing(quota) if device.type == "cpu" else lambda: None
    call()
    begun_s = time.monotonic()
    first_s, _ = _clocked_together(pattern, call, compute, device, 1)
    # All workers must make the same number of calls, so the count is agreed on, not timed out.
    count = min(float(_MAX_CALLS), budget_s / max(first_s[0], 1e-6), _MOST_S / (time.monotonic() - begun_s))
    wanted = torch.tensor([max(float(_MIN_CALLS), count)]).to(device)
    dist.all_reduce(wanted, op=dist.ReduceOp.MIN)
    samples, processor_s = _clocked_together(pattern, call, compute, device, int(wanted))
    low, high = np.percentile(samples, [25, 75])
    elapsed = Timing(_middle_s(samples), float(high - low), len(samples))
    return CollectiveTiming(elapsed, Timing(processor_s, 0.0, len(samples)))


def _middle_s(samples: Sequence[float]) -> float:
    """Their mean, but that of a group of them: a stall of the machine is in one."""
    return float(np.median([np.mean(group) for group in np.array_split(samples, _GROUPS)]))


def _computing(quota: CpuQuota | None) -> Callable[[], None]:
    """Products that stay in the caches for a while, then a sweep through memory.

    Under a quota for two periods of it, half a period more or less, so that a call comes in any part of a period.
    Before one call all compute for as long, but for a tenth.
    """
    matrix = torch.full((_MATRIX_SIZE, _MATRIX_SIZE), 1 / _MATRIX_SIZE)
    swept = torch.zeros(SWEPT_ELEMENTS)
    of_call, own = random.Random(0), random.Random(1 + dist.get_rank())
    clock = time.thread_time if quota else time.monotonic
    period_s = quota.share * quota.period_s if quota else 0.0  # of processor time

    def compute() -> None:
        computed_s = period_s * (_COMPUTED_PERIODS + of_call.random() - 0.5) if quota else _COMPUTED_S
        until_s = clock() + computed_s * (1 + _LATE_SHARE * own.random())
        while clock() < until_s:
            torch.mm(matrix, matrix)
        swept.add_(1)

    return compute


def _clocked_together(
    pattern: Pattern, call: Callable[[], object], compute: Callable[[], None], device: torch.device, count: int
) -> tuple[list[float], float]:
    """Of `count` calls the seconds of each, and this worker's mean processor seconds."""
    times, computed_s, offset_s = [], 0.0, to_first_clock_s()
    apart = pattern.name == "all_to_all_pair"  # else the call itself holds all workers together
    dist.barrier()
    begun_s = time.process_time()
    for _ in range(count):
        if apart:
            dist.barrier()
        compute_s = time.thread_time()
        compute()
        computed_s += time.thread_time() - compute_s
        came_s = time.monotonic()
        times.append((came_s + offset_s, came_s + offset_s + clocked(call, device, 1)))
    dist.barrier()
    calls_s = time.process_time() - begun_s
    computed_s *= _threads_at_work(compute, count)  # what other threads compute is in no call either
    dist.barrier()
    begun_s = time.process_time()
    num_barriers = count + 1 if apart else 1
    for _ in range(num_barriers):
        dist.barrier()
    barriers_s = time.process_time() - begun_s
    every = of_all_workers(torch.tensor(times, dtype=torch.float64, device=device)).numpy()
    return lasting_s(pattern, every), max(calls_s - computed_s - barriers_s, 0.0) / count


def _threads_at_work(compute: Callable[[], None], count: int) -> float:
    """Processor seconds of all threads over those of this one, of what it computes."""
    if torch.get_num_threads() == 1:
        return 1.0
    begun_s, own_s = time.process_time(), time.thread_time()
    for _ in range(count):
        compute()
    return (time.process_time() - begun_s) / max(time.thread_time() - own_s, _CLOCK_S)


def lasting_s(pattern: Pattern, times: np.ndarray) -> list[float]:
    """Of N calls the seconds from the last worker's coming to the end, in the mean of those whose rows travel.

    Args:
        times: [W, N, 2], when every worker came to each call and ended it. Of a pair nobody else takes part.
    """
    came_s, ended_s = np.moveaxis(times, 2, 0)
    its = sorted(set(pattern.ranks))
    if its:
        ended_s = ended_s[its]
    if pattern.name == "all_to_all_pair":
        came_s = came_s[its]
    return np.maximum(ended_s.mean(0) - came_s.max(0), _CLOCK_S).tolist()


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
