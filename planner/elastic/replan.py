"""A plan of the same job for some of its workers."""

from __future__ import annotations

from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec, Placement
from gnnplan.planner.graph import Graph
from gnnplan.planner.job import Job
from gnnplan.planner.plan import Plan
from gnnplan.planner.plan_files import Partition
from gnnplan.planner.search import plan_among, plan_mini_batches
from gnnplan.planner.weather.model import MarkovWeather
from gnnplan.profiles.launch import emulated_hosts


def plan_for(job: Job, placement: Placement, graph: Graph | None, *, timeout_s: float) -> tuple[Plan, Partition]:
    """The best plan of a job on the workers of a placement, and its arrays.

    What the job pins stands, but for more workers than there are. Mini-batches are measured again, where they run.

    Args:
        graph: None of mini-batches.
        timeout_s: as `measure_batches` takes it; of mini-batches alone.

    Raises as `make_plan` and `plan_mini_batches` do.
    """
    size = len(placement.workers)
    if job.pin.num_workers and (job.pin.num_workers > size or job.mini_batch):
        job = job.model_copy(update={"pin": job.pin.model_copy(update={"num_workers": size})})
    weather, num_planned = job.training.weather, job.pin.num_workers or size
    if isinstance(weather, MarkovWeather) and len(weather.workers) != num_planned:  # simulated, of others than are left
        job = job.model_copy(update={"training": job.training.model_copy(update={"weather": None})})
    if job.mini_batch is None:
        assert graph is not None
        return plan_among(job, placement, graph)
    if len(placement.workers_by_host) > 1 or emulated_hosts().keys() & placement.workers_by_host.keys():
        return plan_mini_batches(job, _cluster_of(placement), timeout_s=timeout_s)
    pin = job.pin.model_copy(update={"num_workers": size})
    return plan_mini_batches(job.model_copy(update={"pin": pin}), None, timeout_s=timeout_s)


def _cluster_of(placement: Placement) -> Cluster:
    """Hosts with as many devices as they have workers; the devices are never looked up."""
    first = {place.host: place for place in reversed(placement.workers)}
    hosts = tuple(
        HostSpec(
            name=name,
            devices=(DeviceSpec(catalog="here", count=count, memory_bytes=first[name].memory_bytes),),
            link=first[name].link,
            cpu_cores=first[name].cpu_cores,
        )
        for name, count in placement.workers_by_host.items()
    )
    return Cluster(schema_version=Cluster.VERSION, hosts=hosts, device_link=placement.device_link)
