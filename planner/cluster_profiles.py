"""Profiles of every host of an emulated cluster, and the cluster file that names them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from gnnplan.planner.cluster import CLUSTER_FILE, Cluster, HostSpec, expand_hosts, profile_file, with_profile
from gnnplan.profiles.alike import sharing_timings
from gnnplan.profiles.contract import check_writable
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.launch import emulated_hosts
from gnnplan.profiles.machine import MachineProfile, MeasuredHost
from gnnplan.profiles.profiler import profile_hosts


def profile_cluster(
    cluster: Cluster, folder: Path, *, quick: bool = False, on_progress: Callable[[int, int], None] | None = None
) -> dict[str, MachineProfile]:
    """Profiles every host of an emulated cluster where it runs; call it inside `gnnplan emulate`.

    Writes `folder/HOST.json`, and `folder/cluster.json`: the same cluster, with those profiles. Each has all hosts with
    their links and cores, for its collectives are theirs under these. Hosts of one kind share their timings.

    Raises:
        UserError: the hosts, or the limits of one, are not emulated here, or a host's name cannot be a file's.
        RunFailedError: a profiling worker failed.
    """
    hosts = expand_hosts(cluster)
    files = {name: folder / profile_file(name) for name, _ in hosts}
    _check_limits(hosts)
    check_writable(folder / CLUSTER_FILE)
    counts = {name: sum(device.count for device in host.devices) for name, host in hosts}
    members = tuple(
        MeasuredHost(name=name, num_workers=counts[name], link=cluster.link_of(host), cpu_cores=host.cpu_cores)
        for name, host in hosts
    )
    measured = profile_hosts(counts, quick=quick, on_progress=on_progress)
    own = [profile.model_copy(update={"members": members, "host": name}) for name, profile in measured.items()]
    profiles = {profile.host: profile for profile in sharing_timings(own)}
    for name, profile in profiles.items():
        profile.save(files[name])
    placed = tuple(
        host.model_copy(
            update={"name": name, "count": 1, "devices": tuple(with_profile(device, name) for device in host.devices)}
        )
        for name, host in hosts
    )
    cluster.model_copy(update={"hosts": placed}).save(folder / CLUSTER_FILE)
    return profiles


def _check_limits(hosts: Sequence[tuple[str, HostSpec]]) -> None:
    """`UserError` where a host has limits and is not emulated here: one alone would be this machine without them."""
    known = emulated_hosts()
    for name, host in hosts:
        if name not in known and (host.cpu_cores is not None or host.link is not None):
            raise UserError(
                f"host {name!r} has limits (cpu_cores, link) that are only real inside an emulation of it: "
                f"gnnplan emulate CLUSTER -- gnnplan profile --cluster CLUSTER"
            )
