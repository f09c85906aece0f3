"""What tests on emulated hosts need: whether there can be any here, and what is left of them."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import pytest

from planner.emulation import kernel
from profiles.errors import UserError
from profiles.launch import HOSTS_VARIABLE


def _can_emulate() -> bool:
    try:
        kernel.require_emulation()
        probe = "gnnplanprobe-0"
        subprocess.run(["ip", "netns", "add", probe], check=True, capture_output=True)
        subprocess.run(["ip", "netns", "delete", probe], check=True, capture_output=True)
    except (UserError, OSError, subprocess.CalledProcessError):
        return False
    return True


needs_emulation = pytest.mark.skipif(not _can_emulate(), reason="needs root, iproute2 and a CPU cgroup")


def remains(identity: str) -> list[str]:
    """Namespaces, cgroups, folders and processes that still carry the emulation's id."""
    places = [Path("/run/netns"), Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup"), Path(tempfile.gettempdir())]
    paths = [str(path) for place in places if place.exists() for path in place.glob(f"{identity}-*")]
    return [*paths, *(f"process {pid}" for pid in processes_of(identity))]


def processes_of(identity: str) -> list[int]:
    """The emulation's reaper, and all whose environment names its hosts; zombies have no environment."""
    hosts, reaper = f"{HOSTS_VARIABLE}={tempfile.gettempdir()}/{identity}-", ["planner.emulation.reaper", identity]
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
