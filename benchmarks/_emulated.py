"""What benchmarks on emulated hosts share: being inside a cluster, starting fast, and running again when disturbed."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Protocol, TypeVar

from pydantic import PositiveFloat

from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.emulation import kernel
from gnnplan.planner.emulation.emulate import EmulatedHost, emulated
from gnnplan.planner.graph import Graph
from gnnplan.planner.graph_spec import GraphSpec
from gnnplan.planner.loaders import load_graph
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.machine import Link
from gnnplan.profiles.steal import TOLERATED_SHARE

Emulation = tuple[str, Sequence[EmulatedHost]]
"""Its identity and its hosts, as `inside` yields them."""
MBIT = 125e3  # bytes a second
MAX_TRIES = 4
_PAUSE_S = 10.0  # longer after every try
_MOST_AGE_S = 3600.0  # of a profile that a plan is made by


@contextmanager
def inside(cluster: Cluster) -> Iterator[tuple[str, tuple[EmulatedHost, ...]]]:
    """This process as a command of `gnnplan emulate` sees it; yields the emulation's id and hosts."""
    with emulated(cluster) as (identity, hosts, environment):
        os.environ.update(environment)
        try:
            yield identity, hosts
        finally:
            for name in environment:
                del os.environ[name]


def profiled(cluster: Cluster, folder: Path) -> Cluster:
    """With its hosts' profiles, which are no older than an hour: a machine does not stay as it was.

    To be called inside the cluster.

    Args:
        folder: of the profile, and of all that is planned by it: with an older profile it goes.
    """
    file = folder / "profile" / "cluster.json"
    if not file.exists() or time.time() - file.stat().st_mtime > _MOST_AGE_S:
        shutil.rmtree(folder, ignore_errors=True)
        print(f"{cluster.name}: profiling every host where it runs", flush=True)
        api.profile_cluster(cluster, file.parent)
    return Cluster.load(file)


@contextmanager
def started_fast(identity: str, hosts: Sequence[EmulatedHost]) -> Iterator[Callable[[dict], None]]:
    """Yields a run's `on_event`; hosts have all processor time before its first epoch's end and after its last one's.

    Importing torch under a fifth of a core takes a minute, and so do ending a process and evaluating: nothing of that
    is measured. The first epoch is not timed either.
    """
    limited = False

    def limit(to: bool) -> None:
        nonlocal limited
        if limited != to:
            limited = to
            for host in hosts:
                kernel.set_cpu(identity, host.index, host.cpu_cores if to else None)

    for host in hosts:
        kernel.set_cpu(identity, host.index, None)
    try:
        yield lambda event: limit(event["epoch"] < event["epochs"] - 1) if event["event"] == "epoch" else None
    finally:
        limit(True)


@lru_cache(maxsize=1)
def loaded(spec: GraphSpec) -> Graph:
    """The graph; the last one is kept, for its settings are run one after another."""
    return load_graph(spec)


def why_not_emulated() -> str:
    """Why no hosts can be emulated here; empty where they can."""
    try:
        kernel.require_emulation()
    except UserError as error:
        return str(error)
    return ""


def without_limits(cluster: Cluster) -> Cluster:
    """The same hosts on all of this machine's processor time, with links that nothing slows down."""
    hosts = tuple(host.model_copy(update={"cpu_cores": None, "link": None}) for host in cluster.hosts)
    return cluster.model_copy(update={"hosts": hosts})


class Disturbed(Protocol):
    """What was measured while a share of this machine's processor time was stolen."""

    @property
    def stolen_share(self) -> float: ...


_Measured = TypeVar("_Measured", bound=Disturbed)


def unprofiled(name: str, limits: Sequence[tuple[float, float]]) -> Cluster:
    """Hosts of one worker each, by their cores and Mbit/s; the device stands in until they are profiled."""
    hosts = tuple(
        HostSpec(
            name=f"h{index}",
            devices=(DeviceSpec(catalog="t4"),),
            cpu_cores=PositiveFloat(cores),
            link=Link(bytes_per_s=PositiveFloat(rate * MBIT)),
        )
        for index, (cores, rate) in enumerate(limits)
    )
    return Cluster(schema_version=1, name=name, hosts=hosts)


def undisturbed(run: Callable[[], _Measured], tries: int) -> _Measured:
    """A run again while processor time is stolen from this machine; of what always is, the least disturbed."""
    least: _Measured | None = None
    for number in range(tries):
        if number:
            time.sleep(_PAUSE_S * number)
        measured = run()
        if least is None or measured.stolen_share < least.stolen_share:
            least = measured
        if least.stolen_share <= TOLERATED_SHARE:
            break
    assert least is not None
    return least
