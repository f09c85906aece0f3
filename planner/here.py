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
    """This machine as a cluster of one host, by kept profiles (`gnnplan.profiles.kept`), which are measured at first.

    A CPU is profiled twice: shared out among workers, and left to one. The planner asks for both.

    Args:
        num_workers: as `kept_profile` takes it; where it is given the CPU is profiled for so many alone.
        fresh, on_progress: as `kept_profile` takes them.
    """
    profile, path = kept_profile(num_workers=num_workers, fresh=fresh, on_progress=on_progress)
    as_one = None
    if profile.device_kind == "cpu" and profile.num_workers_beside > 1 and not num_workers:
        _, as_one = kept_profile(num_workers=1, fresh=fresh, on_progress=on_progress)
    return cluster_of_profile(profile, path, as_one)


def cluster_of_profile(profile: MachineProfile, path: Path, as_one: Path | None = None) -> Cluster:
    """One host with the workers that were profiled side by side.

    Args:
        path: the profile's file, as the cluster shall name it.
        as_one: that of one worker with all of their threads.
    """
    device = DeviceSpec(profile=path, count=profile.num_workers_beside, as_one=as_one)
    name = profile.host or "here"
    return Cluster(name=profile.name, hosts=(HostSpec(name=name, devices=(device,)),))


def read_cluster(path: Path) -> Cluster:
    """A cluster file, or a profile file in place of one."""
    if read_mapping(path).get("kind") == MachineProfile.KIND:
        return cluster_of_profile(MachineProfile.load(path), path.resolve())
    return Cluster.load(path)
