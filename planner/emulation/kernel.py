"""The kernel's part of an emulated host: a network namespace, a rate-limited link, a CPU quota.

Every name starts with the emulation's id, and everything lives in namespaces and cgroups of its own,
so that taking it down is: end the processes in the cgroups, delete the namespaces, remove the cgroups.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from profiles.errors import UserError

INTERFACE = "eth0"
CPU_PERIOD_US = 10_000
_CGROUP_ROOT = Path("/sys/fs/cgroup")
_QUEUE_S = 0.05
_BURST_S = 0.2e-3  # a bucket that saves up for longer would let a small exchange pass as if there were no limit
_MIN_BURST_BYTES = 70 * 1024  # the largest packet a host hands over whole, with its headers
_KILL_WAIT_S = 5.0


def require_emulation() -> None:
    """`UserError` in one line where this machine cannot emulate."""
    if not Path("/proc/self/ns/net").exists() or os.uname().sysname != "Linux":
        raise UserError("emulate needs Linux: its hosts are network namespaces and cgroups")
    if os.geteuid() != 0:
        raise UserError("emulate needs root: it makes network namespaces and cgroups; run it with sudo")
    for tool, package in (("ip", "iproute2"), ("tc", "iproute2"), ("nsenter", "util-linux")):
        if shutil.which(tool) is None:
            raise UserError(f"emulate needs the command {tool!r}: install {package}")
    _cpu_hierarchy()


def _cpu_hierarchy() -> Path:
    """Where CPU cgroups are made: the v1 `cpu` hierarchy, or v2 with the cpu controller enabled."""
    if (_CGROUP_ROOT / "cpu" / "cpu.cfs_period_us").exists() or (_CGROUP_ROOT / "cpu" / "tasks").exists():
        return _CGROUP_ROOT / "cpu"
    control = _CGROUP_ROOT / "cgroup.subtree_control"
    if control.exists() and "cpu" in (_CGROUP_ROOT / "cgroup.controllers").read_text().split():
        if "cpu" not in control.read_text().split():
            control.write_text("+cpu")
        return _CGROUP_ROOT
    raise UserError("emulate needs a CPU cgroup (v1 cpu or v2 with the cpu controller); none is mounted")


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    if done.returncode:
        raise UserError(f"emulate: {' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")


def make_switch(emulation: str) -> None:
    """The bridge that joins the hosts, in a namespace of its own."""
    switch = f"{emulation}-switch"
    _run("ip", "netns", "add", switch)
    _run("ip", "-n", switch, "link", "add", "br0", "type", "bridge")
    _run("ip", "-n", switch, "link", "set", "br0", "up")


def make_host(emulation: str, index: int, address: str) -> None:
    """Host `index` with `address` on the switch, and its cgroup; not yet limited."""
    host, switch, port = f"{emulation}-{index}", f"{emulation}-switch", f"port{index}"
    _run("ip", "netns", "add", host)
    _run("ip", "-n", switch, "link", "add", port, "type", "veth", "peer", "name", INTERFACE, "netns", host)
    _run("ip", "-n", switch, "link", "set", port, "master", "br0", "up")
    _run("ip", "-n", host, "address", "add", f"{address}/24", "dev", INTERFACE)
    _run("ip", "-n", host, "link", "set", INTERFACE, "up")
    _run("ip", "-n", host, "link", "set", "lo", "up")
    cgroup_of(emulation, index).mkdir()


def cgroup_of(emulation: str, index: int) -> Path:
    """The CPU cgroup of a host."""
    return _cpu_hierarchy() / f"{emulation}-{index}"


def set_link(emulation: str, index: int, bytes_per_s: float | None, *, change: bool) -> None:
    """Limits a host's link in both directions; None leaves it unlimited."""
    if bytes_per_s is None:
        return
    burst_bytes = max(_MIN_BURST_BYTES, int(bytes_per_s * _BURST_S))
    ends = ((f"{emulation}-{index}", INTERFACE), (f"{emulation}-switch", f"port{index}"))
    for namespace, device in ends:
        _run(
            "tc",
            "-n",
            namespace,
            "qdisc",
            "change" if change else "add",
            "dev",
            device,
            "root",
            "tbf",
            "rate",
            f"{round(bytes_per_s * 8)}bit",
            "burst",
            str(burst_bytes),
            "latency",
            f"{_QUEUE_S * 1e3:.0f}ms",
        )


def set_cpu(emulation: str, index: int, cores: float | None) -> None:
    """Gives a host's processes `cores` cores' worth of time in every period; None leaves it unlimited."""
    cgroup = cgroup_of(emulation, index)
    quota_us = -1 if cores is None else max(1000, round(cores * CPU_PERIOD_US))
    if (cgroup / "cpu.max").exists():
        (cgroup / "cpu.max").write_text(f"{'max' if quota_us < 0 else quota_us} {CPU_PERIOD_US}")
        return
    (cgroup / "cpu.cfs_period_us").write_text(str(CPU_PERIOD_US))
    (cgroup / "cpu.cfs_quota_us").write_text(str(quota_us))


def take_down(emulation: str) -> None:
    """Ends every process of the emulation and removes all it made; safe to call twice."""
    cgroups = sorted(_cpu_hierarchy().glob(f"{emulation}-*"))
    deadline_s = time.monotonic() + _KILL_WAIT_S
    while any(_end_processes(cgroup) for cgroup in cgroups) and time.monotonic() < deadline_s:
        time.sleep(0.02)
    for cgroup in cgroups:
        cgroup.rmdir()
    for namespace in Path("/run/netns").glob(f"{emulation}-*"):
        _run("ip", "netns", "delete", namespace.name)


def _end_processes(cgroup: Path) -> bool:
    pids = (cgroup / "cgroup.procs").read_text().split()
    for pid in pids:
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            continue  # it ended between the listing and the signal
    return bool(pids)
