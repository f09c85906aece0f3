"""What several benchmarks share: where real graphs lie, this machine's cluster, medians with spread."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec
from gnnplan.planner.graph_spec import GraphSpec, NpzGraph
from gnnplan.planner.job import Job
from gnnplan.planner.plan import Plan
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.machine import MachineProfile
from gnnplan.profiles.operators import OPERATORS
from gnnplan.profiles.profiler import profile_machine

ROOT = Path(__file__).parent.parent
DATASETS = ROOT.parent / "shared" / "datasets"
OUT = ROOT / "out" / "benchmarks"


def dataset(name: str) -> Path:
    """Path of a real graph; `UserError` where the folder is absent."""
    path = DATASETS / f"{name}.npz"
    if not path.exists():
        raise UserError(f"{path}: this benchmark needs the real graphs, which are not part of the repository")
    return path


def on_all(job: Job, cluster: Cluster) -> Job:
    """The job, pinned to all workers of a cluster: a comparison between plans of as many."""
    return on_workers(job, num_workers_of(cluster))


def on_workers(job: Job, count: int) -> Job:
    """The job, pinned to so many workers."""
    return job.model_copy(update={"pin": job.pin.model_copy(update={"num_workers": count})})


def num_workers_of(cluster: Cluster) -> int:
    """Devices of all hosts."""
    return sum(host.count * device.count for host in cluster.hosts for device in host.devices)


def chosen(plan: Plan, name: str) -> dict | None:
    """What a plan of choices decided for a technique (None: it takes no part)."""
    return next((each.decision for each in plan.choices if each.technique == name), None)


def operators_of(plan: Plan) -> tuple:
    """The order of operators and the format of features, which comparisons of anything else hold fixed."""
    orders = (chosen(plan, "operator_order") or {"of": {}})["of"]
    once, sparse = (chosen(plan, name) is not None for name in ("first_aggregation", "sparse_features"))
    return tuple(orders.values()), once, sparse


def why_absent(name: str, graph: GraphSpec) -> str | None:
    """Why what is called `name` cannot run here (None: its graph is here)."""
    if isinstance(graph, NpzGraph):
        try:
            dataset(graph.path.stem)
        except UserError as error:
            return f"{name}: {error}"
    return None


def fingerprint_of(settings: object) -> str:
    """What results are kept under: they hold as long as the settings they are of."""
    canonical = json.dumps(settings, sort_keys=True, default=lambda contract: contract.model_dump(mode="json"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def this_machine(
    num_workers: int, *, quick: bool, folder: Path, on_progress: Callable[[int, int], None] | None = None
) -> Cluster:
    """A cluster of this machine as `num_workers` workers, by a profile kept in `folder`.

    Args:
        on_progress: told of points measured, where it is taken now.
    """
    path = folder / f"profile_{num_workers}{'_quick' if quick else ''}.json"
    if not _has_every_table(path):
        print(f"profiling this machine as {num_workers} worker(s)", flush=True)
        profile_machine(num_workers=num_workers, quick=quick, on_progress=on_progress).save(path)
    device = DeviceSpec(profile=path, count=num_workers)
    return Cluster(schema_version=1, name="this machine", hosts=(HostSpec(name="here", devices=(device,)),))


def _has_every_table(path: Path) -> bool:
    """Whether a profile is kept there that code of today has taken."""
    device = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    wanted = {name for name, each in OPERATORS.items() if each.is_measured_on(device)}
    return path.exists() and wanted <= MachineProfile.load(path).operators.keys()


def median_and_spread(values: Sequence[float]) -> tuple[float, float]:
    """Median and interquartile range."""
    low, median, high = np.percentile(values, [25, 50, 75])
    return float(median), float(high - low)
