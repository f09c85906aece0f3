"""Shadow prices: what a plan's epoch would change by if some resource were better, each simulated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gnnplan.planner.cluster import Placement
from gnnplan.planner.explain import faster
from gnnplan.planner.explain.explanation import Price, WorkerBinding
from gnnplan.planner.explain.faster import Faster, same
from gnnplan.planner.plan import Plan
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.readers.schedule import schedule_of
from gnnplan.planner.readers.sustained import long_run_epoch_s
from gnnplan.planner.schedule import Schedule

BETTER = 1.05
_TWICE = 2.0
_MOST_WORKERS = 16  # priced one by one: those that others wait for least, for they are waited for


@dataclass(frozen=True)
class Resource:
    """Something of a placement that could be better.

    Args:
        words: what it is.
        sort: resources of one sort are not moved together.
        computing: as what workers compute sees it.
        travelling: as collectives see it.
    """

    words: str
    sort: str
    computing: Faster = same
    travelling: Faster = same


def resources_of(placement: Placement, ranks: Sequence[int]) -> Iterator[Resource]:
    """All of a placement, of its workers only some.

    Args:
        ranks: of those whose own compute, links and quotas are asked for.
    """
    workers = placement.workers
    everybody, hosts = range(len(workers)), list(dict.fromkeys(worker.host for worker in workers))
    for rank in ranks:
        yield Resource(f"compute of worker {rank} ({workers[rank].host})", "compute", faster.compute({rank}))
    if len(workers) > 1:
        yield Resource("compute of all workers", "compute", faster.compute(everybody))
    asked = list(dict.fromkeys(workers[rank].host for rank in ranks))
    for host in asked:
        here = {rank for rank in everybody if workers[rank].host == host}
        if any(placement.profile_of(rank).cpu_quota for rank in here):
            yield Resource(f"CPU quota of {host}", "quota", faster.processor_time(here))
    if len(hosts) > 1:
        for host in asked:
            yield Resource(f"link of {host}", "link", travelling=faster.links({host}))
        yield Resource("links of all hosts", "link", travelling=faster.links(hosts))
    if len(workers) > len(hosts):
        yield Resource("links within hosts", "inner link", travelling=faster.inner_links)
    if len(workers) > 1:
        yield Resource("latency of all links", "latency", travelling=faster.latency)


def prices_of(plan: Plan, bindings: Sequence[WorkerBinding]) -> tuple[tuple[Price, ...], tuple[Price, ...]]:
    """The price of every resource, the one that helps most first; and of the best ones at twice what they are.

    Args:
        bindings: of every worker. Where there are many, only the least idle ones are priced one by one.
    """
    pricing = _Pricing(plan.cycle.cycle(), plan.placement)
    resources = list(resources_of(plan.placement, _least_waiting(bindings)))
    prices = {resource.words: pricing.price([resource], BETTER) for resource in resources}
    in_order = sorted(resources, key=lambda resource: prices[resource.words].moved_s)
    best_of_sort = list({resource.sort: resource for resource in reversed(in_order)}.values())
    best = sorted(best_of_sort, key=lambda resource: prices[resource.words].moved_s)[:2]
    together = [best[:count] for count in range(1, len(best) + 1)]
    combined = tuple(pricing.price(each, _TWICE) for each in together)
    return tuple(prices[resource.words] for resource in in_order), combined


def _least_waiting(bindings: Sequence[WorkerBinding]) -> list[int]:
    def waiting(binding: WorkerBinding) -> float:
        return sum(time.share for time in binding.times if time.what in ("wait", "idle"))

    chosen = sorted(bindings, key=waiting)[:_MOST_WORKERS]
    return sorted(binding.worker for binding in chosen)


class _Pricing:
    """Simulates the programs of a plan on other placements."""

    def __init__(self, cycle: Cycle, placement: Placement) -> None:
        self._cycle, self._placement = cycle, placement
        self._epoch_s = self._simulated_s(placement, placement)

    def price(self, resources: Sequence[Resource], factor: float) -> Price:
        own = travelling = self._placement
        for resource in resources:
            own, travelling = resource.computing(own, factor), resource.travelling(travelling, factor)
        moved_s = self._simulated_s(own, travelling) - self._epoch_s
        words = tuple(resource.words for resource in resources)
        return Price(resources=words, factor=factor, moved_s=moved_s, share=moved_s / self._epoch_s)

    def _simulated_s(self, own: Placement, travelling: Placement) -> float:
        made = {name: self._schedule(name, own, travelling) for name in dict.fromkeys(self._cycle.order)}
        return long_run_epoch_s([made[name] for name in self._cycle.order])

    def _schedule(self, name: str, own: Placement, travelling: Placement) -> Schedule:
        """What workers compute as on one placement, collectives as on another."""
        computed = schedule_of(self._cycle, name, own)
        if own is travelling:
            return computed
        moved = schedule_of(self._cycle, name, travelling)
        pairs = zip(computed.tasks, moved.tasks, strict=True)
        tasks = [other if other.category == "communicate" else task for task, other in pairs]
        return Schedule(computed.num_workers, tasks, computed.quotas)
