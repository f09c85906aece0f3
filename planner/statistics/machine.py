"""Machines to price statistics on: of workers that are alike one stands for all."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from gnnplan.planner.beside import paces_beside, shares_beside
from gnnplan.planner.cluster import Placement, WorkerPlace
from gnnplan.planner.contracts.counts import Counts
from gnnplan.planner.costs import OperatorCosts
from gnnplan.planner.crowd import Crowd, HostKind
from gnnplan.planner.measured_collectives import MeasuredCollectives
from gnnplan.planner.readers.cost import costs_of

Kind = tuple


@dataclass(frozen=True)
class Machine:
    """Workers of which some stand for others.

    Args:
        placement: of those that stand for others, one of each kind.
        alike: how many each stands for.
        hosts: every kind of host: how many there are, and how many workers of each kind it has.
        price_per_hour: dollars, of all hosts.
        shares: by profile, as `shares_beside` has them, of all workers (None: of those that stand for others).
        paces: by profile, as `paces_beside` has them, of all workers (None: of those that stand for others).
        is_whole: every worker stands for itself, for collectives were measured among exactly these.
    """

    placement: Placement
    alike: tuple[int, ...]
    hosts: tuple[HostKind, ...]
    price_per_hour: float = 0.0
    shares: Mapping[str, float] | None = None
    paces: Mapping[str, float] | None = None
    is_whole: bool = False

    @property
    def num_workers(self) -> int:
        """All workers."""
        return sum(self.alike)

    @cached_property
    def costs(self) -> dict[str, OperatorCosts]:
        """Of every profile."""
        found = costs_of(self.placement)
        return {name: each.at(self.shares[name]) for name, each in found.items()} if self.shares else found

    def crowd(self, counts: Counts, busiest: tuple[float, ...]) -> Crowd | None:
        """Whom the workers stand for, with their shares of the graph (None: each for itself)."""
        if self.is_whole or self.num_workers == 1:
            return None
        return Crowd(self.alike, counts.shares, busiest, self.hosts, self.placement.device_link)


def machine_of(placement: Placement) -> Machine:
    """A placement with its alike workers merged, unless collectives were measured among exactly these workers."""
    price = placement.price_per_hour
    if MeasuredCollectives.of(placement):
        return replace(_merged(placement, [[worker] for worker in placement.workers], price), is_whole=True)
    by_host: dict[int, Counter[Kind]] = defaultdict(Counter)
    for worker in placement.workers:
        by_host[worker.host_index][_kind(worker)] += 1
    of_host = {host: frozenset(kinds.items()) for host, kinds in by_host.items()}
    groups: dict[tuple, list[WorkerPlace]] = defaultdict(list)
    for worker in placement.workers:
        groups[(*_kind(worker), of_host[worker.host_index])].append(worker)
    return _merged(placement, [*groups.values()], price)


def _merged(placement: Placement, groups: Sequence[Sequence[WorkerPlace]], price: float) -> Machine:
    """Of each group the first worker."""
    of_host: dict[int, list[int]] = defaultdict(lambda: [0] * len(groups))
    links = {worker.host_index: worker.link for worker in placement.workers}
    for number, group in enumerate(groups):
        for worker in group:
            of_host[worker.host_index][number] += 1
    kinds = dict.fromkeys(HostKind(links[host], tuple(workers)) for host, workers in of_host.items())
    chosen, alike = tuple(group[0] for group in groups), tuple(map(len, groups))
    stand_in = placement.model_copy(update={"workers": chosen})
    return Machine(stand_in, alike, tuple(kinds), price, shares_beside(placement), paces_beside(placement))


def _kind(worker: WorkerPlace) -> Kind:
    link = worker.link
    return worker.profile, worker.memory_bytes, worker.pinned_bytes, worker.cpu_cores, link.bytes_per_s, link.latency_s
