"""The workers that a job's mini-batches were measured on, as a placement."""

from __future__ import annotations

import platform
from collections.abc import Iterator

from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec, Placement, WorkerPlace, expand_hosts
from gnnplan.planner.device_link import default_device_link
from gnnplan.planner.measured_batches import MeasuredBatches, MeasuredWorker
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.machine import MachineProfile


def placement_of(measured: MeasuredBatches, cluster: Cluster | None) -> Placement:
    """Where the measured workers are. Their profiles hold no operators: the program has the seconds of its stages.

    Args:
        cluster: whose devices they are (None: this machine's).

    Raises `UserError` where the cluster has another number of devices.
    """
    cluster = cluster or _this_machine(len(measured.workers))
    places = list(_places(cluster))
    if len(places) != len(measured.workers):
        raise UserError(f"{len(measured.workers)} workers were measured, the cluster has {len(places)}; measure again")
    workers, profiles = [], {}
    for (host_index, device_index, name, host, device), found in zip(places, measured.workers, strict=True):
        profile = _profile(measured, found, name)
        profiles[profile.name] = profile
        workers.append(
            WorkerPlace(
                host=name,
                host_index=host_index,
                device_index=device_index,
                profile=profile.name,
                link=cluster.link_of(host),
                memory_bytes=device.memory_bytes or found.memory_bytes,
                cpu_cores=host.cpu_cores,
                price_per_hour=host.price_per_hour,
            )
        )
    link = cluster.device_link or default_device_link(profiles.values())
    return Placement(workers=tuple(workers), profiles=profiles, device_link=link)


def _this_machine(num_workers: int) -> Cluster:
    device = DeviceSpec(catalog="here", count=num_workers)  # it is never looked up
    return Cluster(schema_version=1, hosts=(HostSpec(name=platform.node() or "here", devices=(device,)),))


def _places(cluster: Cluster) -> Iterator[tuple[int, int, str, HostSpec, DeviceSpec]]:
    for host_index, (name, host) in enumerate(expand_hosts(cluster)):
        devices = [device for device in host.devices for _ in range(device.count)]
        for device_index, device in enumerate(devices):
            yield host_index, device_index, name, host, device


def _profile(measured: MeasuredBatches, worker: MeasuredWorker, host: str) -> MachineProfile:
    threads, beside = worker.num_threads, worker.num_beside
    return MachineProfile(
        schema_version=1,
        name=f"{host}-{measured.device_kind}-{beside}x{threads}",
        device_kind=measured.device_kind,
        device_name=measured.device_name,
        num_threads=threads,
        num_workers_beside=beside,
        memory_bytes=worker.memory_bytes,
        host_overhead_s=0.0,
        operators={},
        note="of the stages of mini-batches alone",
    )
