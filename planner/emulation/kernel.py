"""The kernel's part of an emulated host: a network namespace, a rate-limited link, a CPU quota.

Every name starts with the emulation's id, and everything lives in namespaces and cgroups of its own, the command
beside the hosts too, so that taking it down is: end the processes in the cgroups, remove cgroups and namespaces.
What the kernel refuses is a `UserError` with the file or the command, and the reason it gives.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path

from gnnplan.profiles.errors import RunFailedError, UserError

INTERFACE = "eth0"
CPU_PERIOD_US = 10_000
_LEAST_QUOTA_US = 1000  # the kernel takes none below
LEAST_CORES = _LEAST_QUOTA_US / CPU_PERIOD_US
_LEAST_LINK_BITS_PER_S = 8000  # below about 2000 `tc` cannot count the seconds of a full bucket
_CGROUP_ROOT = Path("/sys/fs/cgroup")
_NAMESPACES = Path("/run/netns")
_ENABLED_MARK = "cpu-enabled"  # in the folder of an emulation that had to enable the cpu controller
_QUEUE_S = 0.05
# What a host hands over at once. A bucket has to hold it, and what it saves up while a link rests passes as if there
# were no limit: with packets of 64 KiB at 200 Mbit/s an exchange of 65 KB took a tenth of its time, and one of 260 KB
# four fifths. With these they take what they take on a busy link, to a twentieth.
_PACKET_S = 0.25e-3
_LEAST_PACKET_BYTES, _MOST_PACKET_BYTES = 4096, 65_536
_HEADERS_SHARE, _HEADERS_BYTES = 0.06, 200  # of the frames that a packet becomes, at most
_ANSWER_S = 30.0  # for one `ip` or `tc`
_GRACE_S = 5.0  # for the command, and all that it started, to end when asked to
_KILL_WAIT_S = 5.0
_REMOVE_WAIT_S = 5.0  # a cgroup is busy until the last of its processes is gone altogether
_POLL_S = 0.02


def require_emulation() -> None:
    """`UserError` in one line where this machine cannot emulate; changes nothing."""
    if not Path("/proc/self/ns/net").exists() or os.uname().sysname != "Linux":
        raise UserError("emulate needs Linux: its hosts are network namespaces and cgroups")
    if os.geteuid() != 0:
        raise UserError("emulate needs root: it makes network namespaces and cgroups; run it with sudo")
    for tool, package in (("ip", "iproute2"), ("tc", "iproute2"), ("nsenter", "util-linux")):
        if shutil.which(tool) is None:
            raise UserError(f"emulate needs the command {tool!r}: install {package}")
    hierarchy = _cpu_hierarchy()
    if not os.access(hierarchy, os.W_OK):
        raise _refusal(f"{hierarchy}: cannot be written")


def _cpu_hierarchy() -> Path:
    """Where CPU cgroups are made: the v1 `cpu` hierarchy, or v2 where it has the cpu controller."""
    if (_CGROUP_ROOT / "cpu" / "cpu.cfs_period_us").exists() or (_CGROUP_ROOT / "cpu" / "tasks").exists():
        return _CGROUP_ROOT / "cpu"
    if "cpu" in _words(_CGROUP_ROOT / "cgroup.controllers"):
        return _CGROUP_ROOT
    raise UserError("emulate needs a CPU cgroup (v1 cpu or v2 with the cpu controller); none is mounted")


def enable_cpu(folder: Path) -> None:
    """Has v2 give its cgroups the cpu controller; where none did before, `take_down` with this folder undoes it."""
    if _cpu_hierarchy() != _CGROUP_ROOT or "cpu" in _words(_subtree_control()):
        return
    mark = folder / _ENABLED_MARK
    mark.touch()  # first: this process may be killed in between
    try:
        _write(_subtree_control(), "+cpu")
    except UserError:
        mark.unlink()
        raise


def _disable_cpu(mark: Path) -> None:
    """Undoes `enable_cpu`, unless others have come to use it: they would lose their limits."""
    quotas = [_words(path)[:1] for path in _CGROUP_ROOT.glob("*/cpu.max")]
    if not any(_CGROUP_ROOT.glob("gnnplan*-*")) and all(quota in ([], ["max"]) for quota in quotas):
        with suppress(UserError):  # some group below has passed the controller on
            _write(_subtree_control(), "-cpu")
    mark.unlink()


def _subtree_control() -> Path:
    return _CGROUP_ROOT / "cgroup.subtree_control"


def _words(path: Path) -> list[str]:
    """Of a control file; none where it cannot be read."""
    try:
        return path.read_text().split()
    except OSError:
        return []


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise _refusal(f"{path}: {text!r} cannot be written ({error.strerror})") from None


def _make_cgroup(path: Path) -> None:
    try:
        path.mkdir()
    except OSError as error:
        raise _refusal(f"{path}: cannot be made ({error.strerror})") from None


def _refusal(what: str) -> UserError:
    return UserError(
        f"emulate needs CPU cgroups that it can write, with quotas within those of its container: {what}; "
        f"run it on the host, or in a privileged container"
    )


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_ANSWER_S)
    except subprocess.TimeoutExpired:
        raise UserError(f"emulate: {' '.join(command)}: no answer within {_ANSWER_S:g} s") from None
    except OSError as error:
        raise UserError(f"emulate: {' '.join(command)}: {error.strerror}") from None
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
    _make_cgroup(cgroup_of(emulation, index))


def cgroup_of(emulation: str, index: int) -> Path:
    """The CPU cgroup of a host."""
    return _cpu_hierarchy() / f"{emulation}-{index}"


def make_command_cgroup(emulation: str) -> Path:
    """A cgroup without limits for the command beside the hosts: all that it starts is found there, and ended."""
    cgroup = _command_cgroup(emulation)
    _make_cgroup(cgroup)
    return cgroup


def _command_cgroup(emulation: str) -> Path:
    return _cpu_hierarchy() / f"{emulation}-command"


def set_link(emulation: str, index: int, bytes_per_s: float | None, *, change: bool) -> None:
    """Limits a host's link in both directions; None leaves it unlimited."""
    if bytes_per_s is None:
        return
    check_link(bytes_per_s, f"host {index}")
    packet_bytes = int(min(max(bytes_per_s * _PACKET_S, _LEAST_PACKET_BYTES), _MOST_PACKET_BYTES))
    burst_bytes = int(max(packet_bytes * (1 + _HEADERS_SHARE) + _HEADERS_BYTES, bytes_per_s * _PACKET_S))
    ends = ((f"{emulation}-{index}", INTERFACE), (f"{emulation}-switch", f"port{index}"))
    for namespace, device in ends:
        _run("ip", "-n", namespace, "link", "set", device, "gso_max_size", str(packet_bytes))
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


def check_cores(cores: float | None, whose: str) -> None:
    """`UserError` where a host cannot be given as little processor time."""
    if cores is not None and round(cores * CPU_PERIOD_US) < _LEAST_QUOTA_US:
        raise UserError(f"emulate: {whose}: {cores:.3g} cores cannot be emulated, {LEAST_CORES:g} is the least")


def check_link(bytes_per_s: float | None, whose: str) -> None:
    """`UserError` where a link cannot be as slow."""
    if bytes_per_s is not None and round(bytes_per_s * 8) < _LEAST_LINK_BITS_PER_S:
        least = _LEAST_LINK_BITS_PER_S // 8
        raise UserError(f"emulate: {whose}: a link of {bytes_per_s:.3g} B/s cannot be emulated, {least} is the least")


def set_cpu(emulation: str, index: int, cores: float | None) -> None:
    """Gives a host's processes `cores` cores' worth of time in every period; None leaves it unlimited."""
    check_cores(cores, f"host {index}")
    cgroup = cgroup_of(emulation, index)
    quota_us = -1 if cores is None else round(cores * CPU_PERIOD_US)
    if (cgroup / "cpu.max").exists():
        _write(cgroup / "cpu.max", f"{'max' if quota_us < 0 else quota_us} {CPU_PERIOD_US}")
        return
    _write(cgroup / "cpu.cfs_period_us", str(CPU_PERIOD_US))
    _write(cgroup / "cpu.cfs_quota_us", str(quota_us))


def take_down(emulation: str, folder: Path) -> None:
    """Ends every process of the emulation and removes what it made and its folder; safe to call twice.

    What fails is tried again for a while, and keeps nothing else from being removed. `enable_cpu` is undone where it
    left its mark in the folder.

    Raises:
        RunFailedError: something is still there; the message names it and why.
    """
    cgroups = sorted(_cpu_hierarchy().glob(f"{emulation}-*"))
    _ask_to_end(_command_cgroup(emulation))
    _kill(cgroups)
    namespaces = sorted(_NAMESPACES.glob(f"{emulation}-*"))  # their links go with them
    steps: list[tuple[Path, Callable[[], object]]] = [
        *((path, path.rmdir) for path in cgroups),
        *((mark, partial(_disable_cpu, mark)) for mark in folder.glob(_ENABLED_MARK)),
        *((path, partial(_run, "ip", "netns", "delete", path.name)) for path in namespaces),
        (folder, partial(shutil.rmtree, folder)),
    ]
    deadline_s = time.monotonic() + _REMOVE_WAIT_S
    if left := [fault for path, remove in steps if (fault := _fault_of(path, remove, deadline_s))]:
        raise RunFailedError(f"emulate: could not be removed: {'; '.join(left)}")


def _ask_to_end(cgroup: Path) -> None:
    """SIGTERM, once to each process, and a while for them to end by it."""
    asked: set[int] = set()
    deadline_s = time.monotonic() + _GRACE_S
    while (running := _processes([cgroup])) and time.monotonic() < deadline_s:
        _signal(running - asked, signal.SIGTERM)
        asked |= running
        time.sleep(_POLL_S)


def _kill(cgroups: list[Path]) -> None:
    """SIGKILL, again for those that were being forked meanwhile."""
    deadline_s = time.monotonic() + _KILL_WAIT_S
    while (running := _processes(cgroups)) and time.monotonic() < deadline_s:
        _signal(running, signal.SIGKILL)
        time.sleep(_POLL_S)


def _processes(cgroups: list[Path]) -> set[int]:
    found: set[int] = set()
    for cgroup in cgroups:
        with suppress(OSError):  # it is gone, or was never made
            found.update(map(int, (cgroup / "cgroup.procs").read_text().split()))
    return found


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):  # it ended between the listing and the signal
            os.kill(pid, number)


def _fault_of(path: Path, remove: Callable[[], object], deadline_s: float) -> str:
    """Removes `path`, with tries until the deadline and one at least; why it is still there, or nothing."""
    while True:
        try:
            remove()
            return ""
        except (OSError, UserError) as error:
            if not path.exists():
                return ""
            if time.monotonic() >= deadline_s:
                return f"{path} ({error})"
        time.sleep(_POLL_S)
