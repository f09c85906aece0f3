"""Placements some resource of which is better: what shadow prices are simulated on."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from gnnplan.planner.cluster import Placement, WorkerPlace
from gnnplan.planner.explain.measured import is_measured, with_rescaled_tables
from gnnplan.profiles.machine import CpuQuota, Link, MachineProfile, OperatorTable

Faster = Callable[[Placement, float], Placement]
"""Of a placement and a factor by which a resource of it is to be better, the placement with that."""


def same(placement: Placement, factor: float) -> Placement:
    """The placement as it is."""
    return placement


def compute(ranks: Container[int]) -> Faster:
    """Every operator of some workers takes less; on a CPU the work between operators too."""
    return lambda placement, factor: _with_profiles(placement, ranks, lambda own: _quicker(own, factor))


def processor_time(ranks: Container[int]) -> Faster:
    """The quotas of some workers are larger. Operators were timed under them, so they take less as well."""
    return lambda placement, factor: _with_profiles(placement, ranks, lambda own: _with_quota(own, factor))


def links(hosts: Container[str]) -> Faster:
    """The links of some hosts carry more bytes a second.

    What was measured between hosts is faster where the slowest of their links are.
    """

    def faster(placement: Placement, factor: float) -> Placement:
        if is_measured(placement):
            is_faster = lambda passed: bool(passed) and all(w.host in hosts for w in _slowest(passed))  # noqa: E731
            return with_rescaled_tables(placement, lambda passed: (1.0, factor if is_faster(passed) else 1.0))
        return _with_links(placement, hosts, lambda link: _more_bytes(link, factor))

    return faster


def inner_links(placement: Placement, factor: float) -> Placement:
    """Workers of one host send each other more bytes a second."""
    if is_measured(placement):
        return with_rescaled_tables(placement, lambda passed: (1.0, 1.0 if passed else factor))
    return placement.model_copy(update={"device_link": _more_bytes(placement.device_link, factor)})


def latency(placement: Placement, factor: float) -> Placement:
    """What a message takes however small is less, everywhere."""
    if is_measured(placement):
        return with_rescaled_tables(placement, lambda passed: (factor, 1.0))
    hosts = {worker.host for worker in placement.workers}
    moved = placement.model_copy(update={"device_link": _less_latency(placement.device_link, factor)})
    return _with_links(moved, hosts, lambda link: _less_latency(link, factor))


def _with_profiles(
    placement: Placement, ranks: Container[int], change: Callable[[MachineProfile], MachineProfile]
) -> Placement:
    """Some workers with changed profiles of their own. It prices what they compute, but no measured collectives."""
    profiles, workers = dict(placement.profiles), list(placement.workers)
    for rank, worker in enumerate(workers):
        if rank in ranks:
            name = f"{worker.profile}, faster on worker {rank}"
            profiles[name] = change(placement.profile_of(rank))
            workers[rank] = worker.model_copy(update={"profile": name})
    return placement.model_copy(update={"workers": tuple(workers), "profiles": profiles})


def _quicker(profile: MachineProfile, factor: float) -> MachineProfile:
    of_host = factor if profile.device_kind == "cpu" else 1.0  # a GPU's launches are its host's work
    changed = {
        "operators": {name: _divided(table, factor) for name, table in profile.operators.items()},
        "host_overhead_s": profile.host_overhead_s / of_host,
        "step_overhead_s": profile.step_overhead_s / of_host,
    }
    return profile.model_copy(update=changed)


def _divided(table: OperatorTable, factor: float) -> OperatorTable:
    points = (point.model_copy(update={"median_s": point.median_s / factor}) for point in table.points)
    return table.model_copy(update={"points": tuple(points)})


def _with_quota(profile: MachineProfile, factor: float) -> MachineProfile:
    quota = profile.cpu_quota
    if quota is None:
        return profile
    factor = min(factor, 1 / quota.share)
    share = quota.share * factor
    more = CpuQuota(share=share, period_s=quota.period_s) if share < 1 else None
    return _quicker(profile, factor).model_copy(update={"cpu_quota": more})


def _with_links(placement: Placement, hosts: Container[str], change: Callable[[Link], Link]) -> Placement:
    workers = (
        worker.model_copy(update={"link": change(worker.link)}) if worker.host in hosts else worker
        for worker in placement.workers
    )
    return placement.model_copy(update={"workers": tuple(workers)})


def _slowest(workers: Sequence[WorkerPlace]) -> list[WorkerPlace]:
    """Those with the slowest links."""
    least = min(worker.link.bytes_per_s for worker in workers)
    return [worker for worker in workers if worker.link.bytes_per_s <= least]


def _more_bytes(link: Link, factor: float) -> Link:
    return link.model_copy(update={"bytes_per_s": link.bytes_per_s * factor})


def _less_latency(link: Link, factor: float) -> Link:
    return link.model_copy(update={"latency_s": link.latency_s / factor})
