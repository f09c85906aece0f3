"""`gnnplan emulate`: brings a cluster up, runs a command beside it, changes the weather, takes it down."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gnnplan.planner.cluster import Cluster, HostSpec, expand_hosts
from gnnplan.planner.emulation import kernel
from gnnplan.planner.emulation.weather import Spell, Weather
from gnnplan.profiles.agents import LONGEST_STOP_S, die_with_parent
from gnnplan.profiles.errors import RunFailedError, StoppedError, UserError
from gnnplan.profiles.launch import HOSTS_VARIABLE, HostEntry

_MAX_HOSTS = 250
_GRACE_S = 10.0  # for what is killed to end
_LONGEST_END_S = LONGEST_STOP_S + 10.0  # for the command, which may be a run that writes a checkpoint first
_REAPER_WAIT_S = 60.0


@dataclass(frozen=True)
class EmulatedHost:
    """A host that is up: its index, name, and the limits it has in fair weather (None: no limit)."""

    index: int
    name: str
    cpu_cores: float | None
    link_bytes_per_s: float | None


def emulate(cluster: Cluster, command: Sequence[str], weather: Weather | None = None) -> int:
    """Runs `command` with the cluster's hosts up; returns its exit code, as shells give it where a signal ended it.

    The command sees the hosts through the environment variable that `gnnplan.profiles.launch` reads, so
    `gnnplan run` inside it starts each host's workers in that host's namespace and CPU quota. What the
    command leaves running when it ends is ended too.

    Raises:
        UserError: this machine cannot emulate, the hosts are promised more than it has or less than can be given, or
            the weather would change nothing or names an unknown host.
        RunFailedError: the weather could not be changed, and the command was ended; or not all could be removed.
    """
    weather = weather or Weather()
    _check_weather(_hosts_of(cluster), weather)
    with emulated(cluster) as (identity, hosts, environment):
        child = _start(command, kernel.make_command_cgroup(identity), environment)
        keeper = WeatherKeeper(identity, hosts, weather, partial(_end, child))
        keeper.start()
        told = 0
        try:
            child.wait()
        except KeyboardInterrupt as stopped:  # the command is told, too, and says itself what became of it
            told = stopped.number if isinstance(stopped, StoppedError) else signal.SIGINT
        finally:
            keeper.end()
            _end(child)
        if keeper.fault:
            raise RunFailedError(f"emulate: the weather could not be changed, the command was ended: {keeper.fault}")
        if told and child.returncode < 0:  # it had no time to say anything
            raise StoppedError(f"emulate: the command was ended by {signal.Signals(told).name}", told)
        if told and child.returncode:
            return 128 + told
        return 128 - child.returncode if child.returncode < 0 else child.returncode


def _start(command: Sequence[str], cgroup: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    def join() -> None:
        (cgroup / "cgroup.procs").write_text(str(os.getpid()))
        die_with_parent()

    try:
        return subprocess.Popen(list(command), env={**os.environ, **environment}, preexec_fn=join)
    except OSError as error:
        raise UserError(f"emulate: {command[0]}: {error.strerror}") from None
    except subprocess.SubprocessError:
        raise RunFailedError(f"emulate: {command[0]} could not join the cgroup {cgroup}") from None


def _end(child: subprocess.Popen[bytes]) -> None:
    """Asks the command to end where it still runs, and ends it where it does not listen."""
    child.terminate()
    try:
        child.wait(timeout=_LONGEST_END_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait(timeout=_GRACE_S)


@contextmanager
def emulated(cluster: Cluster) -> Iterator[tuple[str, tuple[EmulatedHost, ...], dict[str, str]]]:
    """Brings the cluster's hosts up; yields (id, hosts, environment for commands); takes them down.

    A reaper process does the taking down, also when this process is killed.
    """
    hosts = _hosts_of(cluster)
    kernel.require_emulation()
    identity = f"gnnplan{os.getpid()}"
    folder = Path(tempfile.mkdtemp(prefix=f"{identity}-"))
    reaper = subprocess.Popen(
        [sys.executable, "-P", "-m", "gnnplan.planner.emulation.reaper", identity, str(folder)],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        kernel.enable_cpu(folder)
        kernel.make_switch(identity)
        entries = []
        for host in hosts:
            kernel.make_host(identity, host.index, _address(host.index))
            kernel.set_link(identity, host.index, host.link_bytes_per_s, change=False)
            kernel.set_cpu(identity, host.index, host.cpu_cores)
            entries.append(_entry(identity, host))
        path = folder / "hosts.json"
        path.write_text(json.dumps(entries))
        yield identity, hosts, {HOSTS_VARIABLE: str(path)}
    finally:
        _take_down(reaper, identity, folder)


def _take_down(reaper: subprocess.Popen[bytes], identity: str, folder: Path) -> None:
    """Has the reaper take the emulation down; where it is gone or could not, tries here.

    Raises `RunFailedError` where something is still there.
    """
    assert reaper.stdin is not None
    reaper.stdin.close()
    try:
        code = reaper.wait(timeout=_REAPER_WAIT_S)
    except subprocess.TimeoutExpired:
        reaper.kill()
        code = reaper.wait(timeout=_GRACE_S)
    if code:
        kernel.take_down(identity, folder)


def _hosts_of(cluster: Cluster) -> tuple[EmulatedHost, ...]:
    """The cluster's hosts; `UserError` where they cannot all be emulated."""
    hosts = tuple(_fair_weather(i, name, host, cluster) for i, (name, host) in enumerate(expand_hosts(cluster)))
    if len(hosts) > _MAX_HOSTS:
        raise UserError(f"emulate: {len(hosts)} hosts, at most {_MAX_HOSTS} fit one switch")
    for host in hosts:
        kernel.check_cores(host.cpu_cores, f"host {host.name!r}")
        kernel.check_link(host.link_bytes_per_s, f"host {host.name!r}")
    _check_sum(hosts)
    return hosts


def _check_sum(hosts: Sequence[EmulatedHost]) -> None:
    """`UserError` where the hosts would have less than the files say; those without a limit are promised nothing."""
    promised, usable = sum(host.cpu_cores or 0.0 for host in hosts), len(os.sched_getaffinity(0))
    if round(promised, 6) > usable:
        raise UserError(f"emulate: the hosts' cpu_cores add up to {promised:g}, {usable} can be used here; lower them")


def _check_weather(hosts: Sequence[EmulatedHost], weather: Weather) -> None:
    """`UserError` where it names an unknown host, changes nothing of one, or leaves one too little.

    Little is left first where a spell begins.
    """
    weather.check_hosts([host.name for host in hosts])
    by_name = {host.name: host for host in hosts}
    for index, spell in enumerate(weather.spells):
        host, where = by_name[spell.host], f"weather: spells.{index}: host {spell.host!r}"
        _check_effect(spell, host, where)
        cpu, link = weather.factors(spell.host, spell.from_s)
        kernel.check_cores(_scaled(host.cpu_cores, cpu), f"{where} from {spell.from_s:g} s")
        kernel.check_link(_scaled(host.link_bytes_per_s, link), f"{where} from {spell.from_s:g} s")


def _check_effect(spell: Spell, host: EmulatedHost, where: str) -> None:
    """`UserError` where a share has no limit to act on: fair weather would pass for the one that was asked for."""
    if spell.cpu == spell.link == 1:
        raise UserError(f"emulate: {where}: neither cpu nor link is below 1, so nothing would change")
    for share, limit, key in ((spell.cpu, host.cpu_cores, "cpu_cores"), (spell.link, host.link_bytes_per_s, "link")):
        if share < 1 and limit is None:
            raise UserError(f"emulate: {where} has no {key} that a share of {share:g} could change; give it one")


def _fair_weather(index: int, name: str, host: HostSpec, cluster: Cluster) -> EmulatedHost:
    """A link is limited where the cluster file gives one, to the host or to all."""
    link = host.link or cluster.network
    return EmulatedHost(index, name, host.cpu_cores, link.bytes_per_s if link else None)


def _address(index: int) -> str:
    return f"10.213.0.{index + 1}"


def _entry(identity: str, host: EmulatedHost) -> HostEntry:
    # Not `ip netns exec`, which mounts a /sys of its own: without cgroups no worker could read its quota.
    join = 'echo $$ > "$0"/cgroup.procs && exec "$@"'
    cgroup = str(kernel.cgroup_of(identity, host.index))
    return {
        "name": host.name,
        "address": _address(host.index),
        "interface": kernel.INTERFACE,
        "prefix": ["sh", "-c", join, cgroup, "nsenter", f"--net=/run/netns/{identity}-{host.index}"],
    }


class WeatherKeeper(threading.Thread):
    """Changes the hosts' limits as the weather says, counted from the thread's start, until `end` is called.

    Where a change fails, `fault` says why and `on_fault` is called: figures of what runs meanwhile would be wrong.
    """

    def __init__(
        self,
        identity: str,
        hosts: Sequence[EmulatedHost],
        weather: Weather,
        on_fault: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(name="weather", daemon=True)
        self.identity, self.hosts, self.weather, self.on_fault = identity, hosts, weather, on_fault
        self.fault = ""
        self._ended = threading.Event()

    def run(self) -> None:
        """Until the last change, or `end`."""
        start_s = time.monotonic()
        for at_s in self.weather.change_times_s():
            if self._ends_before(start_s + at_s):
                return
            try:
                self._change(at_s)
            except (UserError, OSError, subprocess.SubprocessError) as error:
                if not self._ended.is_set():
                    self.fault = str(error)
                    self.on_fault()
                return

    def end(self) -> None:
        """Stops; the limits stay as they are, and nothing changes afterwards. Also where it never started."""
        self._ended.set()
        if self.ident is not None:
            self.join()

    def _ends_before(self, when_s: float) -> bool:
        """Waits until then, or until `end` is called: whether it was."""
        while (left_s := when_s - time.monotonic()) > 0:
            if self._ended.wait(min(left_s, threading.TIMEOUT_MAX)):  # longer waits raise
                return True
        return self._ended.is_set()

    def _change(self, at_s: float) -> None:
        for host in self.hosts:
            cpu, link = self.weather.factors(host.name, at_s)
            kernel.set_cpu(self.identity, host.index, _scaled(host.cpu_cores, cpu))
            kernel.set_link(self.identity, host.index, _scaled(host.link_bytes_per_s, link), change=True)


def _scaled(limit: float | None, factor: float) -> float | None:
    return None if limit is None else limit * factor
