"""Faults of every kind at every moment of a run: it ends in one line, leaves nothing behind, and goes on bit for bit.

`cells` counts what was played, with the findings: runs that hang (`hangs`) or end after the timeout and 15 s (`late`),
`unnamed` ends (a traceback, no line, or another exit code), `wrong_numbers` of runs that ended well, and files or
processes `left_behind`. `not_resumed` counts runs that did not come to the weights of an undisturbed one when they went
on; where no two runs are alike, to its accuracy. Cells are kept one by one, so the next start plays those that are
missing: `cells_missing`.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks._fault_cells import MOMENTS, Fault, Job, Run, play
from benchmarks._fault_kinds import EMULATED, FAULTS, can_come, is_root
from benchmarks._results import about, keep, kept_parts, record_of
from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.machine import Link

_FILE = "faults"
_LIMIT_S = 840.0
_WHOLE_S = 240.0
_SETTINGS = "1"  # of the jobs: cells of others are played again
_EPOCHS, _QUICK_EPOCHS = 500, 150
_SMALL_BYTES = "4m"
_GRAPH = {
    "source": "sbm",
    "num_nodes": 300,
    "average_degree": 8,
    "num_classes": 4,
    "num_features": 12,
    "feature_signal": 3.0,
    "seed": 1,
}
_FINDINGS = ("hangs", "late", "wrong_numbers", "unnamed", "left_behind")
_KINDS = ("full batch", EMULATED, "partial reduce", "mini-batch")


def main(quick: bool) -> dict:
    """The cells that are missing, as many as fit the time, in their order; in quick form one."""
    begun_s, all_cells = time.monotonic(), list(_cells())
    names = [_name(*cell) for cell in all_cells]
    rows = {} if quick else kept_parts(_FILE, "rows", "cell", dict.fromkeys(names, _SETTINGS))
    if quick:
        all_cells = [(each, "checkpoint", _KINDS[0]) for each in FAULTS if each.name == "SIGKILL"]
    missing = [cell for cell in all_cells if _name(*cell) not in rows]
    with TemporaryDirectory(prefix="gnnplan-faults-") as folder:
        jobs: dict[str, Job] = {}
        for number, (fault, moment, kind) in enumerate(missing):
            if not quick and time.monotonic() > begun_s + _LIMIT_S:
                break
            if kind == EMULATED and not is_root():
                continue
            if kind not in jobs:
                jobs[kind] = _job(kind, Path(folder), quick=quick)
            if row := _played(jobs[kind], fault, moment, Path(folder) / str(number)):
                rows[_name(fault, moment, kind)] = row
                print(row, file=sys.stderr, flush=True)
                if not quick:
                    keep(_FILE, record_of(_FILE, _figures(rows, names)))
    return _figures(rows, [_name(*cell) for cell in all_cells])


def _name(fault: Fault, moment: str, kind: str) -> str:
    return f"{fault.name}, {moment}, {kind}"


def _cells() -> Iterator[tuple[Fault, str, str]]:
    for moment in MOMENTS:
        for fault in FAULTS:
            yield from ((fault, moment, kind) for kind in _KINDS if can_come(fault, moment, kind))


def _played(job: Job, fault: Fault, moment: str, folder: Path) -> dict[str, Any] | None:
    """A cell's row; None where it takes a disk of its own and this machine gives none."""
    scratch = folder / "scratch"
    scratch.mkdir(parents=True)
    with _place(folder / "run", fault.on_small_disk) as run:
        if run is None:
            return None
        cell = play(job, fault, moment, run, scratch)
    return {"cell": _name(fault, moment, job.kind), "settings": _SETTINGS, **cell.as_dict(), **about()}


def _figures(rows: dict[str, dict[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    cells = [rows[name] for name in names if name in rows]
    resumed = [cell["resumed"] for cell in cells if cell["resumed"] is not None]
    ended_alone = [cell["seconds"] for cell in cells if cell["exit_code"] != 0]
    return {
        "cells": len(cells),
        "cells_missing": len(names) - len(cells),
        **{finding: sum(bool(cell[finding]) for cell in cells) for finding in _FINDINGS},
        "resumed_bit_identical": sum(resumed),
        "not_resumed": len(resumed) - sum(resumed),
        "worst_seconds_to_end": max(ended_alone, default=0.0),
        "rows": cells,
    }


def _job(kind: str, folder: Path, *, quick: bool) -> Job:
    """Full batch with rows that are kept, which has most to lose, partial reduce, or mini-batches."""
    epochs = _QUICK_EPOCHS if quick or kind == "mini-batch" else _EPOCHS
    job: dict[str, Any] = {
        "name": kind.replace(" ", "_"),
        "graph": _GRAPH,
        "model": {"kind": "gcn", "hidden_channels": 8, "dropout": 0.5},
        "training": {"epochs": epochs},
        "fidelity": "stale",
    }
    pin: dict[str, Any] = {"dependencies": "communicate", "num_workers": 1 if quick else 2, "balance": "speed"}
    if kind == "mini-batch":
        job["model"] = {"kind": "sage", "hidden_channels": 8}
        job |= {"mini_batch": {"fan_outs": [4, 3], "batch_size": 15}, "pin": {"num_workers": 2}, "fidelity": "exact"}
        return _planned(kind, job, folder, None, epochs)
    if kind == "partial reduce":
        job["pin"] = pin | {"partial_reduce": {"max_staleness": 2}}
    else:
        job["pin"] = pin | {"refresh_interval": 3}
    return _planned(kind, job, folder, _cluster(folder, kind), epochs)


def _cluster(folder: Path, kind: str) -> Cluster:
    """Two workers of a machine like this, or of two, by a link on which rows are worth keeping."""
    path = folder / "here.json"
    catalog_profile("rtx-3090").model_copy(update={"device_kind": "cpu", "num_threads": 1}).save(path)
    if kind == EMULATED:
        one = (DeviceSpec(profile=path),)
        hosts = tuple(HostSpec(name=name, devices=one, link=Link(bytes_per_s=1e7)) for name in "ab")
        return Cluster(schema_version=1, hosts=hosts)
    host = HostSpec(name="here", devices=(DeviceSpec(profile=path, count=2),))
    return Cluster(schema_version=1, hosts=(host,), device_link=Link(bytes_per_s=1e6))


def _planned(kind: str, job: dict[str, Any], folder: Path, cluster: Cluster | None, epochs: int) -> Job:
    """The plan, one that ends in infinity where all epochs are watched for it, and a run that nothing disturbs."""
    name = job["name"]
    plan, endless = folder / f"{name}.json", None
    api.plan(job, cluster, plan)
    if kind == "full batch":
        endless = folder / f"{name}_endless.json"
        training = {**job["training"], "optimizer": "sgd", "learning_rate": 1e6}
        api.plan(job | {"training": training}, cluster, endless)
    prefix: tuple[str, ...] = ()
    if kind == EMULATED:
        assert cluster is not None
        file = cluster.save(folder / "cluster.json")
        prefix = (sys.executable, "-m", "gnnplan.planner.cli", "emulate", str(file), "--")
    whole = folder / f"{name}_whole"
    undisturbed = Run(plan, whole, folder, prefix=prefix)
    assert undisturbed.end(_WHOLE_S), undisturbed.said
    assert undisturbed.process.returncode == 0, undisturbed.said
    return Job(kind, plan, whole, epochs, endless, is_repeatable=kind != "partial reduce", prefix=prefix)


@contextmanager
def _place(folder: Path, on_small_disk: bool) -> Iterator[Path | None]:
    """A run's folder; None where it takes a disk of its own and this machine gives none."""
    if not on_small_disk:
        yield folder
        return
    folder.mkdir()
    if not is_root():
        yield None
        return
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_SMALL_BYTES}", "tmpfs", str(folder)]
    if subprocess.run(mount, stderr=subprocess.DEVNULL, check=False).returncode:
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)
