"""What tests on emulated hosts need: whether there can be any here, and what is left of them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from planner.emulation import kernel
from profiles.errors import UserError


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
    """Namespaces and cgroups that still carry the emulation's id."""
    places = [Path("/run/netns"), Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")]
    return [str(path) for place in places if place.exists() for path in place.glob(f"{identity}-*")]
