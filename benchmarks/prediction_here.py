"""Predicted against measured median epoch on this machine: the demo and six more settings.

Plans are made from one quick profile, taken before anything is run; nothing is fitted to the runs. The spread of the
measured epochs stands beside each error.

It is done twice: with a profile that was taken while nothing else ran (quiet), and with one that had one busy process
beside the first half of its points (busy). Runs are quiet both times. Where hosts can be emulated here, a cluster of
three is profiled and run both ways too. An error may be at most 10% (quiet) or 15% (busy) in the mean, or the
result says that it was disturbed: `silently_worse` lists where neither holds.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from benchmarks._busy_beside import busy_beside_first
from benchmarks._common import OUT, ROOT, this_machine
from benchmarks._emulated import inside, why_not_emulated
from benchmarks._prediction_table import predict_and_run
from gnnplan.planner import api
from gnnplan.planner.cluster import CLUSTER_FILE, Cluster
from gnnplan.planner.demo import demo_job
from gnnplan.planner.graph_spec import RmatGraph, SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import PinnedDecisions
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.report.disturbance import profile_was_disturbed
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.machine import MachineProfile

NUM_WORKERS = 2
LIMITS = {"quiet": 0.10, "busy": 0.15}
_BUSY_SHARE = {"quiet": 0.0, "busy": 0.5}  # of the profile's points, beside which one process is busy
_EMULATED = ROOT / "examples" / "emulated.toml"
_EVERYONE = PinnedDecisions(balance="refined")  # all on one worker would be the easier plan to predict


def settings(quick: bool) -> dict[str, Job]:
    """The demo, then each model on other graphs, widths and depths."""
    sbm = SbmGraph(source="sbm", num_nodes=30_000, average_degree=30, num_features=200, num_classes=16)
    small = SbmGraph(source="sbm", num_nodes=8_000, average_degree=12, num_features=64)
    rmat = RmatGraph(source="rmat", num_nodes=40_000, num_edges=800_000, num_features=128)
    chosen = {
        "gcn, 3 layers, 256, sbm": (sbm, ModelSpec(kind="gcn", num_layers=3, hidden_channels=256)),
        "sage, 3 layers, 128, rmat": (rmat, ModelSpec(kind="sage", num_layers=3, hidden_channels=128)),
        "gat, 2 layers, 128, sbm": (sbm, ModelSpec(kind="gat", num_layers=2, hidden_channels=128)),
        "gin, 2 layers, 64, small": (small, ModelSpec(kind="gin", num_layers=2, hidden_channels=64)),
        "tagcn, 2 layers, 64, rmat": (rmat, ModelSpec(kind="tagcn", num_layers=2, hidden_channels=64)),
        "gcn, 4 layers, 64, dropout, rmat": (
            rmat,
            ModelSpec(kind="gcn", num_layers=4, hidden_channels=64, dropout=0.5),
        ),
    }
    jobs = {"demo": demo_job()}
    for name, (graph, model) in chosen.items():
        jobs[name] = Job(
            schema_version=1, name=name, graph=graph, model=model, training=TrainingSpec(epochs=30), pin=_EVERYONE
        )
    return dict(list(jobs.items())[: 2 if quick else None])


def main(quick: bool) -> dict:
    """Plans, runs and compares every setting, from a quiet and from a disturbed profile."""
    folder = OUT / f"prediction_here{'_quick' if quick else ''}"
    forms = {name: [_here(name, quick, folder / name)] for name in LIMITS}
    skipped = why_not_emulated() if not quick else "the quick form emulates no hosts"
    if not skipped:
        for name, parts in forms.items():
            parts.append(_emulated(name, folder / f"{name}_emulated"))
    quiet, busy = forms["quiet"], forms["busy"]
    return {
        **{key: quiet[0][key] for key in ("mape", "worst", "median_spread", "settings", "rows")},
        "quiet_error": max(part["mape"] for part in quiet),
        "busy_error": max(part["mape"] for part in busy),
        "said_so": all(part["said"] for part in busy),
        "silently_worse": [part["where"] for name, parts in forms.items() for part in parts if _is_silent(name, part)],
        "skipped": skipped,
        "forms": {name: [_short(part) for part in parts] for name, parts in forms.items()},
    }


def _is_silent(name: str, part: Mapping) -> bool:
    """Whether predictions are worse than they may be, and nothing says why."""
    return part["mape"] > LIMITS[name] and not part["said"]


def _short(part: Mapping) -> dict:
    return {key: part[key] for key in ("where", "mape", "worst", "said", "rows")}


def _here(name: str, quick: bool, folder: Path) -> dict:
    """All settings on this machine, by a profile that is taken now."""
    shutil.rmtree(folder, ignore_errors=True)
    with _disturbance(name) as on_progress:
        cluster = this_machine(NUM_WORKERS, quick=True, folder=folder, on_progress=on_progress)
    title = f"predicted against measured median epoch, {NUM_WORKERS} workers, {name} profile"
    result = predict_and_run(settings(quick), cluster, folder, title)
    return {"where": f"{name}, this machine", "said": _said([cluster], result), **result}


def _emulated(name: str, folder: Path) -> dict:
    """One setting on three uneven hosts, by profiles that are taken now."""
    shutil.rmtree(folder, ignore_errors=True)
    with inside(Cluster.load(_EMULATED)):
        with _disturbance(name) as on_progress:
            api.profile_cluster(Cluster.load(_EMULATED), folder / "profile", quick=True, on_progress=on_progress)
        cluster = Cluster.load(folder / "profile" / CLUSTER_FILE)
        jobs = {key: job for key, job in settings(quick=False).items() if key.startswith("gcn, 3 layers")}
        result = predict_and_run(jobs, cluster, folder, f"the same on three emulated hosts, {name} profiles")
    return {"where": f"{name}, emulated hosts", "said": _said([cluster], result), **result}


def _disturbance(name: str) -> AbstractContextManager[Callable[[int, int], None]]:
    """One busy process beside the first part of a profile, or none; enters to what is told of the profile's points."""
    share = _BUSY_SHARE[name]
    return busy_beside_first(share) if share else nullcontext(lambda done, total: None)


def _said(clusters: Sequence[Cluster], result: Mapping) -> list[str]:
    """What is said of the profiles of clusters, and of the runs."""
    runs = [f"{row['setting']}: {words}" for row in result["rows"] for words in row["notes"]]
    files = {device.profile for cluster in clusters for host in cluster.hosts for device in host.devices}
    profiles = [MachineProfile.load(file) for file in sorted(filter(None, files))]
    return [*(words for profile in profiles for words in profile_was_disturbed(profile)), *runs]
