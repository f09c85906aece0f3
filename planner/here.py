"""Clusters that nobody wrote a file for: this machine, and the machine that a profile was measured on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.profiles.contract import read_mapping
from gnnplan.profiles.kept import kept_profile
from gnnplan.profiles.machine import MachineProfile


def this_machine(
    *, num_workers: int = 0, fresh: bool = False, on_progress: Callable[[int, int], None] | None = None
) -> Cluster:
    """This machine as a cluster of one host, by its kept profile (`gnnplan.profiles.kept`), which is measured at first.

    Args:
        num_workers, fresh, on_progress: as `kept_profile` takes them.
    """
    profile, path = kept_profile(num_workers=num_workers, fresh=fresh, on_progress=on_progress)
    return cluster_of_profile(profile, path)


def cluster_of_profile(profile: MachineProfile, path: Path) -> Cluster:
    """One host with the workers that were profiled side by side.

    Args:
        path: the profile's file, as the cluster shall name it.
    """
    device = DeviceSpec(profile=path, count=profile.num_workers_beside)
    name = profile.host or "here"
    return Cluster(name=profile.name, hosts=(HostSpec(name=name, devices=(device,)),))


def read_cluster(path: Path) -> Cluster:
    """A cluster file, or a profile file in place of one."""
    if read_mapping(path).get("kind") == MachineProfile.KIND:
        return cluster_of_profile(MachineProfile.load(path), path.resolve())
    return Cluster.load(path)
