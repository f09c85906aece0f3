"""What a profiling worker times: the points of operators and collectives, alike on all workers at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations

import numpy as np
import torch
import torch.distributed as dist

from gnnplan.profiles.collectives import Pattern, time_collective
from gnnplan.profiles.grids import Grid, Shape
from gnnplan.profiles.machine import Anchor, CollectiveTable, CpuQuota, OperatorTable, Point
from gnnplan.profiles.measure import Timing, sustained
from gnnplan.profiles.operators import OPERATORS, timed_call
from gnnplan.profiles.passes import Probe
from gnnplan.profiles.torchrun import first_rank_of_host

_MIN_COLLECTIVE_POINTS = 3
_NUM_ANCHORS = 6
_LONG_COLLECTIVE_S = 0.3  # 100 Mbit/s carry 4 MiB in more, 200 in less: four times that is timed as well
_MOST_PAIRED_HOSTS = 8  # 28 pairs
_FEW_PAIRS = 6  # that are timed in as many passes as all collectives; more of them in one
_LARGEST_OF_PAIRS_S = 120.0  # for the largest size of all pairs together, in all passes
_CALLS_OF_LONG = 7  # that a long point takes


@dataclass(frozen=True)
class Workers:
    """Workers described by one profile: those of a host, or of all hosts where `group` is None."""

    group: dist.ProcessGroup | None

    def agree(self, timing: Timing, device: torch.device) -> Timing:
        """The mean over the workers."""
        median_s, spread_s = self.mean([timing.median_s, timing.spread_s], device)
        return Timing(median_s, spread_s, timing.repeats)

    def mean(self, values: list[float], device: torch.device) -> list[float]:
        """Elementwise mean over the workers."""
        if not dist.is_initialized():
            return values
        total = torch.tensor(values, dtype=torch.float64, device=device)
        dist.all_reduce(total, group=self.group)
        return (total / dist.get_world_size(self.group)).tolist()


def any_worker(flags: list[bool], device: torch.device) -> list[bool]:
    """Elementwise, whether any worker of the run set the flag."""
    return [share > 0 for share in Workers(None).mean([float(flag) for flag in flags], device)]


def largest(value: float, device: torch.device) -> float:
    """The largest of one value per worker of the run."""
    if not dist.is_initialized():
        return value
    found = torch.tensor([value], dtype=torch.float64, device=device)
    dist.all_reduce(found, op=dist.ReduceOp.MAX)
    return float(found)


def over_all_workers(value: float, device: torch.device) -> float:
    """The sum of one value per worker of the run."""
    size = dist.get_world_size() if dist.is_initialized() else 1
    return Workers(None).mean([value], device)[0] * size


def workers_of_this_host() -> Workers:
    """The group of this host's workers; every worker of the run must call it."""
    if not dist.is_initialized():
        return Workers(None)
    first = first_rank_of_host()
    groups = {host: dist.new_group([r for r, h in enumerate(first) if h == host]) for host in sorted(set(first))}
    return Workers(groups[first[dist.get_rank()]])


@dataclass(frozen=True)
class Probes:
    """The probes of one worker, in the order in which all workers call them, and what becomes of their timings.

    Args:
        beside: the workers of this host.
        operators: names of those that are timed.
        first_of_host: of every rank the first rank of its host; empty where there is one worker.
        even_s: filled on the way, seconds of the even exchange among all at each size it was timed at.
        quota: of this worker's threads.
    """

    grid: Grid
    device: torch.device
    beside: Workers
    operators: Sequence[str]
    first_of_host: list[int] = field(default_factory=list)
    even_s: list[float] = field(default_factory=list)
    quota: CpuQuota | None = None

    @staticmethod
    def of(
        grid: Grid, device: torch.device, beside: Workers, operators: Sequence[str], quota: CpuQuota | None = None
    ) -> Probes:
        """Those of this worker; every worker of the run must call it."""
        alone = not dist.is_initialized() or dist.get_world_size() == 1
        first_of_host = [] if alone else first_rank_of_host()
        return Probes(grid, device, beside, operators, first_of_host, quota=quota)

    def of_operators(self) -> list[Probe]:
        """Every point of every operator."""
        return [
            partial(self._time_operator, name, shape) for name in self.operators for shape in self.grid.shapes(name)
        ]

    def anchors(self, first: Sequence[Timing]) -> tuple[Anchor, ...]:
        """A few points of operators timed once more, at the end; every worker must call it.

        Args:
            first: what every point of `of_operators()` took, in their order.
        """
        points = [(name, shape) for name in self.operators for shape in self.grid.shapes(name)]
        chosen = {round(place) for place in np.linspace(0, len(points) - 1, _NUM_ANCHORS)} if points else set()
        anchors = []
        for index in sorted(chosen):
            (again,) = self._time_operator(*points[index])
            name, shape = points[index]
            seconds = {"first_s": first[index].median_s, "again_s": again.median_s}
            anchors.append(Anchor(operator=name, shape=shape, **seconds))
        return tuple(anchors)

    def of_collectives(self) -> list[Probe]:
        """Every point of every collective in which all workers or a port take part (none where there is one worker)."""
        points: list[Probe] = []
        for pattern in self._patterns():
            so_far = self.even_s if pattern.name == "all_to_all" else []
            for index in range(len(self.grid.collective_bytes)):
                points.append(partial(self._time_collective, pattern, index, so_far))
        return points

    def of_pairs(self) -> list[Probe]:
        """Every point of every pair; called after those of `of_collectives`, whose seconds say which are timed."""
        sizes = range(len(self.grid.collective_bytes))
        return [partial(self._time_pair, pattern, index) for pattern in self._pairs() for index in sizes]

    @property
    def num_pair_passes(self) -> int:
        """Passes over the points of pairs."""
        return self.grid.num_collective_passes if len(self._pairs()) <= _FEW_PAIRS else 1

    def operator_tables(self, timings: Sequence[tuple[Timing, ...]]) -> dict[str, OperatorTable]:
        """What timings of `of_operators()` make."""
        remaining = iter(timings)
        tables = {}
        for name in self.operators:
            points = tuple(_point(shape, next(remaining)[0]) for shape in self.grid.shapes(name))
            tables[name] = OperatorTable(axes=OPERATORS[name].axes, points=points)
        return tables

    def collective_tables(self, timings: Sequence[tuple[Timing, ...]]) -> tuple[CollectiveTable, ...]:
        """What timings of `of_collectives()` and then `of_pairs()` make: the tables that this host's profile holds."""
        remaining = iter(timings)
        tables = []
        for pattern in (*self._patterns(), *self._pairs()):
            taken = [(size, timing) for size in self.grid.collective_bytes if (timing := next(remaining))]
            if not pattern.ranks or self._own in self._hosts_of(pattern):
                tables.append(self._collective_table(pattern, taken))
        return tuple(tables)

    def _patterns(self) -> list[Pattern]:
        """Among all workers, and the port of every host; of two workers every exchange is one between all."""
        if not self.first_of_host:
            return []
        ports = self._hosts if len(self.first_of_host) > 2 else []
        return [Pattern("all_reduce"), Pattern("all_to_all"), *(Pattern("all_to_all_port", (rank,)) for rank in ports)]

    def _pairs(self) -> list[Pattern]:
        """A worker of each of two hosts, and two workers of every host that has several; none of very many hosts."""
        if len(self.first_of_host) <= 2 or len(self._hosts) > _MOST_PAIRED_HOSTS:
            return []
        pairs = list(combinations(self._hosts, 2))
        for host in self._hosts:
            here = [rank for rank, first in enumerate(self.first_of_host) if first == host]
            pairs += [(here[0], here[1])] if len(here) > 1 else []
        return [Pattern("all_to_all_pair", ranks) for ranks in pairs]

    @property
    def _hosts(self) -> list[int]:
        """The first rank of every host, which stands for it."""
        return sorted(set(self.first_of_host))

    @property
    def _own(self) -> int:
        return self.first_of_host[dist.get_rank()]

    def _hosts_of(self, pattern: Pattern) -> list[int]:
        return [self.first_of_host[rank] for rank in pattern.ranks]

    def _time_operator(self, name: str, shape: Shape) -> tuple[Timing, ...]:
        call = timed_call(name, shape, self.device)
        if dist.is_initialized():
            dist.barrier()  # so that all workers load the machine with the same operator
        timing = sustained(call, self.device, budget_s=self.grid.budget_s, quota=self.quota)
        return (self.beside.agree(timing, self.device),)

    def _time_collective(self, pattern: Pattern, index: int, so_far: list[float]) -> tuple[Timing, ...]:
        """Elapsed and processor seconds; nothing where smaller sizes were long: then a link is a straight line."""
        is_new = index >= len(so_far)
        if is_new and (index > len(so_far) or (index >= _MIN_COLLECTIVE_POINTS and so_far[-1] >= _LONG_COLLECTIVE_S)):
            return ()
        timings = self._time(pattern, index)
        if is_new:
            so_far.append(timings[0].median_s)
        return timings

    def _time_pair(self, pattern: Pattern, index: int) -> tuple[Timing, ...]:
        """The same at a few sizes, else nothing."""
        num_calls = len(self._pairs()) * self.num_pair_passes * _CALLS_OF_LONG
        if index not in pair_sizes(self.even_s, _LARGEST_OF_PAIRS_S / num_calls):
            return ()
        return self._time(pattern, index)

    def _time(self, pattern: Pattern, index: int) -> tuple[Timing, ...]:
        timing = time_collective(
            pattern, self.grid.collective_bytes[index], self.device, self.grid.budget_s, self.quota
        )
        elapsed = Workers(None).agree(timing.elapsed, self.device)
        return elapsed, self.beside.agree(timing.processor, self.device)

    def _collective_table(self, pattern: Pattern, taken: Sequence[tuple[float, tuple[Timing, ...]]]) -> CollectiveTable:
        def table(which: int) -> OperatorTable:
            points = tuple(_point((num_bytes,), timings[which]) for num_bytes, timings in taken)
            return OperatorTable(axes=("num_bytes",), points=points)

        is_pair = pattern.name == "all_to_all_pair"
        return CollectiveTable(
            collective=pattern.name,
            backend="nccl" if self.device.type == "cuda" else "gloo",
            num_workers=dist.get_world_size(),
            table=table(0),
            processor=None if is_pair else table(1),  # the mean of a host's workers, of whom one has a part in it
            peer=self._peer_of(pattern) if is_pair else None,
        )

    def _peer_of(self, pattern: Pattern) -> int:
        """The place of a pair's other host, or of this one where both are here."""
        others = [host for host in self._hosts_of(pattern) if host != self._own] or [self._own]
        return self._hosts.index(others[0])


def pair_sizes(even_s: Sequence[float], most_s: float) -> set[int]:
    """Which of the sizes pairs are timed at, by what an exchange of equal parts among all took at each, ascending.

    The smallest, and every other one down from the largest that took `most_s` at most, or from the third.
    """
    num_short = sum(seconds <= most_s for seconds in even_s)
    last = min(max(num_short, _MIN_COLLECTIVE_POINTS), len(even_s)) - 1
    return {0, *range(last, 0, -2)}


def _point(shape: Shape, timing: Timing) -> Point:
    return Point(
        shape=shape, median_s=timing.median_s, spread_s=timing.spread_s, repeats=timing.repeats, provenance="measured"
    )
