"""The first edition's planner and runtime, from this repository's history, for comparisons in one run.

Its last commit is checked out below `out/`. A process of its own plans and runs there, on the same profiles, for its
packages have other names.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks._common import OUT, ROOT
from gnnplan.planner.cluster import CLUSTER_FILE
from gnnplan.planner.job import Job
from gnnplan.profiles.contract import read_mapping

COMMIT = "f9d6fbe8"  # the last before the second edition
_TIMEOUT_S = 1800.0
_NEWER = ("shared_machine", "others_share", "anchors", "calibrated_on", "as_one")  # that it does not know
_PLAN = """
import json, sys, time
from pathlib import Path
from typing import Any
from planner import api
from planner.cluster import Cluster
from planner.job import Job
job_path, cluster_path, plan_path = map(Path, sys.argv[1:])
job, cluster = Job.load(job_path), Cluster.load(cluster_path)
graph = api.load_graph(job.graph)
begin_s = time.perf_counter()
plan = api.plan(job, cluster, plan_path, graph=graph)
print(json.dumps({"epoch_s": plan.prediction.epoch_s, "planning_s": time.perf_counter() - begin_s}))
"""
_RUN = """
import json, sys
from pathlib import Path
from typing import Any
from planner import api
plan_path, folder = map(Path, sys.argv[1:])
say = lambda event: print(json.dumps(event), flush=True)
trace = api.run(plan_path, folder, timeout_s=600.0, on_event=say)
print(json.dumps({"epoch_s": list(trace.epoch_s), "stolen_share": trace.stolen_share}))
"""


@dataclass(frozen=True)
class Measured:
    """What a run of the first edition measured."""

    epoch_s: tuple[float, ...]
    stolen_share: float


def checkout() -> Path | None:
    """The folder of the first edition's code; None where the history does not have it."""
    folder = OUT / "first_edition"
    if not folder.exists():
        git = ["git", "-C", str(ROOT)]
        if subprocess.run([*git, "cat-file", "-e", COMMIT], capture_output=True).returncode:
            return None
        archive = subprocess.run([*git, "archive", COMMIT], capture_output=True, check=True).stdout
        folder.mkdir(parents=True)
        subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)
    return folder


def with_old_profiles(folder: Path, to: Path) -> Path:
    """The cluster file of `folder` with its profiles as the first edition reads them."""
    to.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.json"):
        (to / path.name).write_text(json.dumps(_known(read_mapping(path))))
    return to / CLUSTER_FILE


def _known(document: Any) -> Any:
    """A document without keys of today, and without those that have no value."""
    if isinstance(document, dict):
        return {key: _known(value) for key, value in document.items() if key not in _NEWER and value is not None}
    return [_known(each) for each in document] if isinstance(document, list) else document


def plan(job: Job, pins: dict, cluster: Path, path: Path) -> dict[str, float]:
    """Plans a job there, under the first edition's own pins; gives `epoch_s` as predicted, and `planning_s`."""
    document = job.model_dump(mode="json", exclude_defaults=True, exclude={"pin", "fidelity"})  # keys that it knows
    job_path = path.with_name("job.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    job_path.write_text(json.dumps({"schema_version": 1, **document, "pin": pins}))
    return _last(_python(_PLAN, [str(job_path), str(cluster), str(path)]))


def run(path: Path, folder: Path, on_event: Callable[[dict], None]) -> Measured:
    """Runs a plan of the first edition in the emulation around this process."""
    found = _last(_python(_RUN, [str(path), str(folder)], on_event))
    return Measured(tuple(found["epoch_s"]), found["stolen_share"])


def _python(program: str, arguments: Sequence[str], on_event: Callable[[dict], None] = lambda event: None) -> list[str]:
    where = checkout()
    assert where is not None
    environment = os.environ | {"PYTHONPATH": str(where)}
    command = [sys.executable, "-c", program, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, cwd=where, text=True) as child:
        assert child.stdout
        lines = []
        for line in child.stdout:
            lines.append(line)
            if '"event"' in line:
                on_event(json.loads(line))
        if child.wait(timeout=_TIMEOUT_S):
            raise RuntimeError(f"the first edition failed: {' '.join(arguments)}")
    return lines


def _last(lines: Sequence[str]) -> dict:
    return json.loads(lines[-1])
