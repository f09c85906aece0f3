"""What tests on emulated hosts need: whether there can be any here, small clusters, and what is left of them."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.emulation import kernel
from gnnplan.profiles.errors import RunFailedError, UserError
from gnnplan.profiles.launch import HOSTS_VARIABLE


def _can_emulate() -> bool:
    """Only what the emulation itself refuses skips tests: any other error is a fault of it, and stands."""
    try:
        kernel.require_emulation()
        _bring_up_and_take_down(f"gnnplanprobe{os.getpid()}")
    except (UserError, RunFailedError):
        return False
    return True


def _bring_up_and_take_down(probe: str) -> None:
    folder = Path(tempfile.mkdtemp(prefix=f"{probe}-"))
    try:
        kernel.enable_cpu(folder)
        kernel.make_switch(probe)
        kernel.make_host(probe, 0, "10.213.0.1")
        kernel.set_link(probe, 0, 1e6, change=False)
        kernel.set_cpu(probe, 0, 0.5)
    finally:
        kernel.take_down(probe, folder)


needs_emulation = pytest.mark.skipif(
    not _can_emulate(), reason="needs root, iproute2 and a CPU cgroup that can be written"
)


def cluster(*hosts: HostSpec) -> Cluster:
    """Of these hosts, with a network that nothing limits."""
    return Cluster(schema_version=1, hosts=hosts)


def host(name: str, **limits) -> HostSpec:
    """With one device of the catalog."""
    return HostSpec(name=name, devices=(DeviceSpec(catalog="t4"),), **limits)


def comes_true(condition: Callable[[], object], within_s: float) -> bool:
    """Whether a condition does, in time."""
    end_s = time.monotonic() + within_s
    while not (holds := condition()) and time.monotonic() < end_s:
        time.sleep(0.05)
    return bool(holds)


def quota_us(identity: str, index: int) -> int:
    """Of a host's cgroup, of either version; -1 where it has none."""
    cgroup = kernel.cgroup_of(identity, index)
    if (cgroup / "cpu.max").exists():
        word = (cgroup / "cpu.max").read_text().split()[0]
        return -1 if word == "max" else int(word)
    return int((cgroup / "cpu.cfs_quota_us").read_text())


def remains(identity: str) -> list[str]:
    """Namespaces, cgroups, folders and processes that still carry the emulation's id."""
    places = [Path("/run/netns"), Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup"), Path(tempfile.gettempdir())]
    paths = [str(path) for place in places if place.exists() for path in place.glob(f"{identity}-*")]
    return [*paths, *(f"process {pid}" for pid in processes_of(identity))]


def processes_of(identity: str) -> list[int]:
    """The emulation's reaper, and all whose environment names its hosts; zombies have no environment."""
    hosts, reaper = (
        f"{HOSTS_VARIABLE}={tempfile.gettempdir()}/{identity}-",
        ["gnnplan.planner.emulation.reaper", identity],
    )
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            variables = (entry / "environ").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue  # it ended meanwhile
        if words[3:5] == reaper or any(variable.startswith(hosts) for variable in variables):
            found.append(int(entry.name))
    return found
