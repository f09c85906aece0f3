"""`gnnplan emulate`: brings a cluster up, runs a command beside it, changes the weather, takes it down."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from planner.cluster import Cluster, HostSpec, expand_hosts
from planner.emulation import kernel
from planner.emulation.weather import Weather
from profiles.agents import die_with_parent
from profiles.errors import RunFailedError, UserError
from profiles.launch import HOSTS_VARIABLE, HostEntry

_MAX_HOSTS = 250
_REAPER_WAIT_S = 30.0


@dataclass(frozen=True)
class EmulatedHost:
    """A host that is up: its index, name, and the limits it has in fair weather (None: no limit)."""

    index: int
    name: str
    cpu_cores: float | None
    link_bytes_per_s: float | None


def emulate(cluster: Cluster, command: Sequence[str], weather: Weather | None = None) -> int:
    """Runs `command` with the cluster's hosts up; returns its exit code.

    The command sees the hosts through the environment variable that `profiles.launch` reads, so
    `gnnplan run` inside it starts each host's workers in that host's namespace and CPU quota.

    Raises:
        UserError: this machine cannot emulate, or the weather names an unknown host.
        RunFailedError: the weather could not be changed; the command was ended.
    """
    with emulated(cluster) as (identity, hosts, environment):
        if weather:
            weather.check_hosts([host.name for host in hosts])
        try:
            child = subprocess.Popen(list(command), env={**os.environ, **environment}, preexec_fn=die_with_parent)
        except OSError as error:
            raise UserError(f"emulate: {command[0]}: {error.strerror}") from None
        keeper = WeatherKeeper(identity, hosts, weather or Weather(), child.terminate)
        keeper.start()
        try:
            code = child.wait()
        finally:
            keeper.end()
            if child.poll() is None:
                child.terminate()
                child.wait()
        if keeper.fault:
            raise RunFailedError(f"emulate: the weather could not be changed, the command was ended: {keeper.fault}")
        return code


@contextmanager
def emulated(cluster: Cluster) -> Iterator[tuple[str, tuple[EmulatedHost, ...], dict[str, str]]]:
    """Brings the cluster's hosts up; yields (id, hosts, environment for commands); takes them down.

    A reaper process does the taking down, also when this process is killed.
    """
    kernel.require_emulation()
    hosts = tuple(_fair_weather(i, name, host, cluster) for i, (name, host) in enumerate(expand_hosts(cluster)))
    if len(hosts) > _MAX_HOSTS:
        raise UserError(f"emulate: {len(hosts)} hosts, at most {_MAX_HOSTS} fit one switch")
    identity = f"gnnplan{os.getpid()}"
    reaper = subprocess.Popen(
        [sys.executable, "-P", "-m", "planner.emulation.reaper", identity],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        with tempfile.TemporaryDirectory(prefix="gnnplan-emulation-") as folder:
            kernel.make_switch(identity)
            entries = []
            for host in hosts:
                kernel.make_host(identity, host.index, _address(host.index))
                kernel.set_link(identity, host.index, host.link_bytes_per_s, change=False)
                kernel.set_cpu(identity, host.index, host.cpu_cores)
                entries.append(_entry(identity, host))
            path = Path(folder) / "hosts.json"
            path.write_text(json.dumps(entries))
            yield identity, hosts, {HOSTS_VARIABLE: str(path)}
    finally:
        assert reaper.stdin is not None
        reaper.stdin.close()
        reaper.wait(timeout=_REAPER_WAIT_S)


def _fair_weather(index: int, name: str, host: HostSpec, cluster: Cluster) -> EmulatedHost:
    """A link is limited where the cluster file gives one, to the host or to all."""
    link = host.link or (cluster.network if "network" in cluster.model_fields_set else None)
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
            if self._ended.wait(max(0.0, start_s + at_s - time.monotonic())):
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

    def _change(self, at_s: float) -> None:
        for host in self.hosts:
            cpu, link = self.weather.factors(host.name, at_s)
            kernel.set_cpu(self.identity, host.index, _scaled(host.cpu_cores, cpu))
            kernel.set_link(self.identity, host.index, _scaled(host.link_bytes_per_s, link), change=True)


def _scaled(limit: float | None, factor: float) -> float | None:
    return None if limit is None else limit * factor
