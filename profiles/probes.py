"""What a profiling worker times: the points of operators and collectives, alike on all workers at once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
import torch.distributed as dist

from profiles.collectives import COLLECTIVES, Collective, time_collective
from profiles.grids import Grid, Shape
from profiles.machine import CollectiveTable, OperatorTable, Point
from profiles.measure import Timing, sustained
from profiles.operators import OPERATORS
from profiles.passes import Probe

_MIN_COLLECTIVE_POINTS = 3
_LONG_COLLECTIVE_S = 0.2


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


def workers_of_this_host() -> Workers:
    """The group of this host's workers; every worker of the run must call it."""
    if not dist.is_initialized():
        return Workers(None)
    first = _first_rank_of_host()
    groups = {host: dist.new_group([r for r, h in enumerate(first) if h == host]) for host in sorted(set(first))}
    return Workers(groups[first[dist.get_rank()]])


def _first_rank_of_host() -> list[int]:
    """For every rank, the first rank of its host."""
    mine = torch.tensor([int(os.environ["GROUP_RANK"])])
    hosts = [torch.zeros_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(hosts, mine, group=dist.new_group(backend="gloo"))
    of_rank = [int(host) for host in hosts]
    return [of_rank.index(host) for host in of_rank]


@dataclass(frozen=True)
class Probes:
    """The probes of one worker, in the order in which all workers call them, and what becomes of their timings."""

    grid: Grid
    device: torch.device
    beside: Workers
    operators: Sequence[str]
    first_of_host: list[int] = field(default_factory=list)

    @staticmethod
    def of(grid: Grid, device: torch.device, beside: Workers, operators: Sequence[str]) -> Probes:
        """Those of this worker; every worker of the run must call it."""
        alone = not dist.is_initialized() or dist.get_world_size() == 1
        return Probes(grid, device, beside, operators, [] if alone else _first_rank_of_host())

    def of_operators(self) -> list[Probe]:
        """Every point of every operator."""
        return [
            partial(self._time_operator, name, shape) for name in self.operators for shape in self.grid.shapes(name)
        ]

    def of_collectives(self) -> list[Probe]:
        """Every point of every collective among all workers (none where there is one worker)."""
        points: list[Probe] = []
        for name, port_of in self._collectives():
            so_far: list[float] = []
            for index in range(len(self.grid.collective_bytes)):
                points.append(partial(self._time_collective, name, port_of, index, so_far))
        return points

    def operator_tables(self, timings: Sequence[tuple[Timing, ...]]) -> dict[str, OperatorTable]:
        """What timings of `of_operators()` make."""
        remaining = iter(timings)
        tables = {}
        for name in self.operators:
            points = tuple(_point(shape, next(remaining)[0]) for shape in self.grid.shapes(name))
            tables[name] = OperatorTable(axes=OPERATORS[name].axes, points=points)
        return tables

    def collective_tables(self, timings: Sequence[tuple[Timing, ...]]) -> tuple[CollectiveTable, ...]:
        """What timings of `of_collectives()` make: the tables that this host's profile holds."""
        remaining = iter(timings)
        tables = []
        for name, port_of in self._collectives():
            taken = [(size, timing) for size in self.grid.collective_bytes if (timing := next(remaining))]
            if name != "all_to_all_port" or port_of == self.first_of_host[dist.get_rank()]:
                tables.append(self._collective_table(name, taken))
        return tuple(tables)

    def _collectives(self) -> list[tuple[Collective, int]]:
        """(name, rank whose port is timed): among all workers, and the port of every host."""
        if not self.first_of_host:
            return []
        ports = sorted(set(self.first_of_host))
        return [(name, port) for name in COLLECTIVES for port in (ports if name == "all_to_all_port" else [0])]

    def _time_operator(self, name: str, shape: Shape) -> tuple[Timing, ...]:
        call = OPERATORS[name].make(shape, self.device)
        if dist.is_initialized():
            dist.barrier()  # so that all workers load the machine with the same operator
        timing = self.beside.agree(sustained(call, self.device, budget_s=self.grid.budget_s), self.device)
        return (timing,)

    def _time_collective(self, name: Collective, port_of: int, index: int, so_far: list[float]) -> tuple[Timing, ...]:
        """Elapsed and processor seconds; nothing where smaller sizes were long: then a link is a straight line."""
        if len(so_far) == index and index >= _MIN_COLLECTIVE_POINTS and so_far[-1] >= _LONG_COLLECTIVE_S:
            so_far.append(so_far[-1])
            return ()
        num_bytes = self.grid.collective_bytes[index]
        timing = time_collective(name, num_bytes, self.device, self.grid.budget_s, port_of=port_of)
        elapsed = Workers(None).agree(timing.elapsed, self.device)
        if len(so_far) == index:
            so_far.append(elapsed.median_s)
        return elapsed, self.beside.agree(timing.processor, self.device)

    def _collective_table(self, name: Collective, taken: Sequence[tuple[float, tuple[Timing, ...]]]) -> CollectiveTable:
        def table(which: int) -> OperatorTable:
            points = tuple(_point((num_bytes,), timings[which]) for num_bytes, timings in taken)
            return OperatorTable(axes=("num_bytes",), points=points)

        return CollectiveTable(
            collective=name,
            backend="nccl" if self.device.type == "cuda" else "gloo",
            num_workers=dist.get_world_size(),
            table=table(0),
            processor=table(1),
        )


def _point(shape: Shape, timing: Timing) -> Point:
    return Point(
        shape=shape, median_s=timing.median_s, spread_s=timing.spread_s, repeats=timing.repeats, provenance="measured"
    )
