"""One of four emulated hosts is killed in the middle of a training, which goes on with three."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from benchmarks._common import on_all
from benchmarks._emulated import MBIT, inside
from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.graph import Graph
from gnnplan.planner.job import Job
from gnnplan.planner.plan import Plan
from gnnplan.profiles.agents import workers_of
from gnnplan.profiles.machine import Link

AT_EPOCH = 50
_NUM_HOSTS, _CORES, _RATE = 4, 0.5, 1000 * MBIT
_EVERY = 20  # epochs


def elastic_of(job: Job, profile: Path, graph: Graph, folder: Path) -> dict[str, Any]:
    """Its accuracy and losses beside those of a training that loses nobody.

    Args:
        profile: what each host is said to be; every one of this machine's is.
    """
    one = (DeviceSpec(profile=profile),)
    link = Link(bytes_per_s=_RATE)
    hosts = tuple(HostSpec(name=f"h{i}", devices=one, cpu_cores=_CORES, link=link) for i in range(_NUM_HOSTS))
    cluster = Cluster(schema_version=1, name="four even hosts", hosts=hosts)
    plan = api.plan(on_all(job, cluster), cluster, folder / "plan.json", graph=graph)
    assert plan.file is not None
    with inside(cluster):
        whole = api.run(plan.file, folder / "whole", graph=graph)
        loss = _Loss(folder / "run")
        trace = api.run(plan.file, loss.run, graph=graph, elastic=1, checkpoint_every=_EVERY, on_event=loss)
    (restart,) = loss.restarts
    left = Plan.load(loss.run / "plan.json").num_workers
    return {
        "hosts": plan.num_workers,
        "hosts_left": left,
        "killed_at_epoch": loss.killed_at,
        "epochs": len(trace.losses),
        "lost_s": restart["lost_s"],
        "lost_epochs": restart["lost_epochs"],
        "epoch_s": whole.median_epoch_s,
        "epoch_s_left": trace.median_epoch_s,
        "accuracy": trace.accuracy,
        "accuracy_undisturbed": whole.accuracy,
        "accuracy_gap_pct": max(100 * abs(trace.accuracy[name] - whole.accuracy[name]) for name in whole.accuracy),
        "last_loss_gap": abs(trace.losses[-1] / whole.losses[-1] - 1),
        "words": restart["words"],
    }


class _Loss:
    """Kills the last worker once, when the run comes to an epoch."""

    def __init__(self, run: Path) -> None:
        self.run, self.restarts, self.killed_at = run, list[dict[str, Any]](), 0

    def __call__(self, event: dict[str, Any]) -> None:
        if event["event"] == "restart":
            self.restarts.append(event)
        if event["event"] == "epoch" and event["epoch"] >= AT_EPOCH and not self.killed_at:
            self.killed_at = event["epoch"]
            os.kill(max(workers_of(self.run).values()), signal.SIGKILL)
