"""Runs of a plan in which something happens to one worker while it trains, and what such a run leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.emulation.emulate import emulated
from gnnplan.planner.emulation.kernel import INTERFACE
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PartialReducePin, PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.models.forward import LABELS
from gnnplan.planner.plan import Plan
from gnnplan.planner.plan_files import load_partition
from gnnplan.planner.program_shard import ProgramShard
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.agents import workers_of
from gnnplan.profiles.catalog import catalog_profile

NUM_WORKERS, K = 3, 3
EARLIER_MODEL = b"weights of an earlier run"
SMALL = SbmGraph(source="sbm", num_nodes=200, average_degree=8, num_classes=4, num_features=12)


def plan_on(folder: Path, num_hosts: int, *, partial: bool, epochs: int) -> tuple[Cluster, Path]:
    """A cluster of `num_hosts` without limits, and where the plan of its workers lies."""
    profile = folder / "here.json"
    catalog_profile("rtx-3090").model_copy(update={"device_kind": "cpu", "num_threads": 1}).save(profile)
    device = DeviceSpec(profile=profile, count=NUM_WORKERS // num_hosts)
    cluster = Cluster(hosts=tuple(HostSpec(name=f"h{index}", devices=(device,)) for index in range(num_hosts)))
    pin = PinnedDecisions(
        dependencies="communicate",
        partial_reduce=PartialReducePin(alpha=0.5, max_staleness=K) if partial else None,
        op_order="multiply_first",
        precompute=False,
        balance="speed",
        overlap=False,
        num_workers=NUM_WORKERS,
    )
    job = Job(
        graph=SMALL,
        model=ModelSpec(hidden_channels=8),
        training=TrainingSpec(epochs=epochs, traced_epochs=1),
        fidelity="stale" if partial else "exact",
        pin=pin,
    )
    (folder / "run").mkdir()
    (folder / "run" / "model.pt").write_bytes(EARLIER_MODEL)
    api.plan(job, cluster, folder / "plan.json")
    return cluster, folder / "plan.json"


class Once:
    """Does something when the first event comes of an epoch from `epoch` on."""

    def __init__(self, act: Callable[[], object], epoch: int = 10) -> None:
        self.act, self.epoch, self.is_done = act, epoch, False

    def __call__(self, event: dict) -> None:
        if not self.is_done and event["epoch"] >= self.epoch:
            self.is_done = True
            self.act()


def each_of(handlers: Sequence[Callable[[dict], None]]) -> Callable[[dict], None]:
    """Hands every event to all of them."""

    def handle(event: dict) -> None:
        for handler in handlers:
            handler(event)

    return handle


@contextmanager
def undone_later() -> Iterator[Callable[[float, Callable[[], object]], None]]:
    """Yields what has something done after some seconds; on leaving it is done, or never will be."""
    timers: list[Timer] = []

    def later(seconds: float, act: Callable[[], object]) -> None:
        timers.append(Timer(seconds, act))
        timers[-1].start()

    try:
        yield later
    finally:
        for timer in timers:
            timer.cancel()
            timer.join()


@contextmanager
def hosts_up(cluster: Cluster, monkeypatch) -> Iterator[str]:
    """The cluster's hosts, to be found by `api.run`; yields the emulation's id."""
    with emulated(cluster) as (identity, _, environment), monkeypatch.context() as patched:
        for name, value in environment.items():
            patched.setenv(name, value)
        yield identity


def set_link(identity: str, host: int, state: str) -> None:
    """Pulls a host's cable (`down`), or puts it back (`up`)."""
    subprocess.run(["ip", "-n", f"{identity}-{host}", "link", "set", INTERFACE, state], check=True, timeout=30)


def processes_of(folder: Path) -> dict[int, list[bytes]]:
    """The environment of every process whose command names the folder, by its id; zombies have no command."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder).encode() in (entry / "cmdline").read_bytes():
                found[int(entry.name)] = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # it ended meanwhile
    return found


def send(folder: Path, rank: int, number: signal.Signals) -> None:
    """Signals a worker of the run in a folder."""
    os.kill(workers_of(folder)[rank], number)


def check_nothing_stays(folder: Path) -> None:
    """No process of the run lives on; what was written before is whole, an earlier model too; nothing is there half."""
    until_s = time.monotonic() + 20
    while (left := processes_of(folder)) and time.monotonic() < until_s:
        time.sleep(0.05)
    assert not left
    plan = Plan.load(folder / "plan.json")
    load_partition(plan, folder / "plan.json")
    shards = [ProgramShard.load(folder / "shards" / f"worker_{rank}.npz") for rank in range(plan.num_workers)]
    assert sum(len(shard.inputs[LABELS]) for shard in shards) == plan.graph.num_nodes
    assert not [path for path in folder.rglob("*") if path.name.startswith(".")]
    assert not (folder / "measured.json").exists()
    assert (folder / "model.pt").read_bytes() == EARLIER_MODEL
