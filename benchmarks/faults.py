"""Faults of every kind at every moment of a run: it ends in one line, leaves nothing behind, and goes on bit for bit.

`cells` counts what was played, with the findings: `hangs` past the timeout and 15 s, `unnamed` ends (a traceback, no
line, or another exit code), `wrong_numbers` of runs that ended well, and files or processes `left_behind`.
`not_resumed` counts runs that did not come to the weights of an undisturbed one when they went on.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks._fault_cells import MOMENTS, Cell, Fault, Job, kill_worker, play, remove_folder, signalled
from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.profiles.catalog import catalog_profile
from gnnplan.profiles.machine import Link

_LIMIT_S = {True: 240.0, False: 840.0}
_EPOCHS = 500
_SMALL_BYTES = "4m"
_GRAPH = {"source": "sbm", "num_nodes": 300, "average_degree": 8, "num_classes": 4, "num_features": 12, "seed": 1}


def _fill_disk(_: subprocess.Popen, folder: Path) -> None:
    with (folder / "filler").open("wb", buffering=0) as sink:
        try:
            while True:
                sink.write(bytes(2**12))
        except OSError:
            return


def _remount(how: str, folder: Path) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", str(folder)], check=False)


FAULTS = (
    Fault("SIGKILL", kill_worker, (1,)),
    Fault("SIGTERM", signalled(signal.SIGTERM), (143,)),
    Fault("SIGINT", signalled(signal.SIGINT), (130,)),
    Fault("folder removed", remove_folder, (1, 2)),
    Fault("disk full", _fill_disk, (1, 2), lambda folder: (folder / "filler").unlink(missing_ok=True), True),
    Fault("read-only", lambda _, f: _remount("ro", f), (1, 2), lambda folder: _remount("rw", folder), True),
)
_QUICK = {("SIGKILL", "checkpoint"), ("SIGTERM", "middle")}


def main(quick: bool) -> dict:
    """As many cells as fit the time, in their order."""
    begun_s, cells = time.monotonic(), list[Cell]()
    with TemporaryDirectory(prefix="gnnplan-faults-") as name:
        folder = Path(name)
        jobs = list(_jobs(folder, quick=quick))
        for number, (fault, moment) in enumerate(_pairs(quick=quick)):
            for job in jobs:
                if time.monotonic() > begun_s + _LIMIT_S[quick]:
                    break
                scratch = folder / f"{job.kind} {number} scratch"
                scratch.mkdir()
                with _place(folder / f"{job.kind.replace(' ', '_')}_{number}", fault.on_small_disk) as run:
                    if run:
                        cells.append(play(job, fault, moment, run, scratch))
                        print(cells[-1], file=sys.stderr, flush=True)
    return _figures(cells) | {"seconds": time.monotonic() - begun_s}


def _figures(cells: list[Cell]) -> dict:
    resumed = [cell.resumed for cell in cells if cell.resumed is not None]
    return {
        "cells": len(cells),
        "hangs": sum(cell.hangs for cell in cells),
        "wrong_numbers": sum(cell.wrong_numbers for cell in cells),
        "unnamed": sum(cell.unnamed for cell in cells),
        "left_behind": sum(bool(cell.left_behind) for cell in cells),
        "resumed_bit_identical": sum(resumed),
        "not_resumed": len(resumed) - sum(resumed),
        "worst_seconds_to_end": max((cell.seconds for cell in cells), default=0.0),
        "rows": [cell.as_dict() for cell in cells],
    }


def _pairs(*, quick: bool) -> Iterator[tuple[Fault, str]]:
    for moment in MOMENTS:
        for fault in FAULTS:
            can_come = (
                fault.name != "read-only" or moment == "start"
            )  # Linux refuses while files are open to be written
            if can_come and (not quick or (fault.name, moment) in _QUICK):
                yield fault, moment


def _jobs(folder: Path, *, quick: bool) -> Iterator[Job]:
    """Full batch with rows that are kept, which has most to lose; and mini-batches."""
    job = {
        "graph": _GRAPH,
        "model": {"kind": "gcn", "hidden_channels": 8, "dropout": 0.5},
        "training": {"epochs": _EPOCHS},
        "fidelity": "stale",
        "pin": {"dependencies": "communicate", "num_workers": 2, "balance": "speed", "refresh_interval": 3},
    }
    yield _planned("full batch", job, folder, _cluster(folder), _EPOCHS)
    if not quick:
        batches = {"fan_outs": [4, 3], "batch_size": 15}
        job = {"graph": _GRAPH, "model": {"kind": "sage", "hidden_channels": 8}, "mini_batch": batches}
        yield _planned("mini-batch", job | {"training": {"epochs": 150}}, folder, None, 150)


def _cluster(folder: Path) -> Cluster:
    """Two workers of a machine like this, by a link on which rows are worth keeping."""
    path = folder / "here.json"
    catalog_profile("rtx-3090").model_copy(update={"device_kind": "cpu", "num_threads": 1}).save(path)
    host = HostSpec(name="here", devices=(DeviceSpec(profile=path, count=2),))
    return Cluster(schema_version=1, hosts=(host,), device_link=Link(bytes_per_s=1e6))


def _planned(kind: str, job: dict, folder: Path, cluster: Cluster | None, epochs: int) -> Job:
    name = kind.replace(" ", "_")
    path = folder / f"{name}.json"
    api.plan({"name": name} | job, cluster, path)
    api.run(path, folder / f"{name}_whole")
    return Job(kind, path, folder / f"{name}_whole" / "model.pt", epochs)


@contextmanager
def _place(folder: Path, on_small_disk: bool) -> Iterator[Path | None]:
    """A run's folder; None where it takes a disk of its own and this machine gives none."""
    if not on_small_disk:
        yield folder
        return
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_SMALL_BYTES}", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, stderr=subprocess.DEVNULL).returncode:
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)
