"""What the verbs are given: files by their paths, objects, or plain dicts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from gnnplan.planner.cluster import Cluster
from gnnplan.planner.graph import Graph
from gnnplan.planner.graph_spec import GraphOptions, MemoryGraph
from gnnplan.planner.here import cluster_of_profile, read_cluster, this_machine
from gnnplan.planner.job import Job
from gnnplan.planner.link.split import link_graph
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.plan import Plan
from gnnplan.planner.sound_plan import load_plan
from gnnplan.planner.trace import Trace
from gnnplan.profiles.contract import replacing
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.kept import cache_folder
from gnnplan.profiles.machine import MachineProfile

GivenJob: TypeAlias = Job | str | Path | Mapping[str, Any]
"""A job, its file, or a dict of its keys, short forms included (`{"graph": "sbm", "model": "gcn", "epochs": 100}`)."""
GivenCluster: TypeAlias = Cluster | MachineProfile | str | Path | None
"""A cluster or its file; a profile or its file, for the machine it was measured on; None: this machine."""
GivenPlan: TypeAlias = Plan | str | Path
GivenTrace: TypeAlias = Trace | str | Path
GivenGraph: TypeAlias = Any
"""A `gnnplan.planner.graph.Graph`, or a PyG `Data` or `HeteroData`."""


def job_of(
    given: GivenJob | None, graph: GivenGraph | None = None, model: Any = None, epochs: int | None = None
) -> Job:
    """The job; of a dict without a graph that of the `graph` given beside it, with the module and epochs given too.

    Args:
        given: None is a dict without keys.
        model: a `torch.nn.Module` in memory.
    """
    if isinstance(given, Job):
        return _with_module(given, model)
    if isinstance(given, str | Path):
        return _with_module(Job.load(given), model)
    raw = {"schema_version": Job.VERSION, **(given or {})}
    if graph is not None and isinstance(raw.setdefault("graph", {}), Mapping):
        raw["graph"] = {"source": "memory", **raw["graph"]}
    if model is not None:
        raw.setdefault("model", {"kind": "module"})
    if epochs is not None:
        raw["epochs"] = epochs
    return _with_module(Job.parse(raw, where="job").with_paths_from(Path.cwd()), model)


def _with_module(job: Job, module: Any) -> Job:
    if module is None:
        return job
    if job.model.kind != "module" or job.model.build:
        raise UserError(
            f"{job.name}: a module is given, and the job has model {job.model.words}; leave one of them out"
        )
    return job.model_copy(update={"model": job.model.model_copy().holding(module)})


def graph_of(given: GivenGraph | None, job: Job) -> Graph:
    """The graph given, else the one that the job names, loaded."""
    if given is None:
        return load_graph(job.graph)
    if isinstance(given, Graph):
        if job.graph.link and not given.pairs:
            return link_graph(given.validate(), job.graph.link, job.graph.split_seed).validate()
        return given.validate()
    from gnnplan.planner.loaders.pyg import graph_of_data

    options = {name: getattr(job.graph, name) for name in GraphOptions.model_fields}
    return graph_of_data(given, MemoryGraph(**options)).validate()


def cluster_of(given: GivenCluster, *, on_progress: Callable[[int, int], None] | None = None) -> Cluster:
    """The cluster; None is this machine, which is profiled where no profile of it is kept.

    Args:
        on_progress: told of points measured.
    """
    if given is None:
        return this_machine(on_progress=on_progress)
    if isinstance(given, MachineProfile):
        return cluster_of_profile(given, _kept_by_content(given))
    return given if isinstance(given, Cluster) else read_cluster(Path(given))


def plan_of(given: GivenPlan) -> Plan:
    """The plan."""
    return given if isinstance(given, Plan) else load_plan(given)


def plan_file(given: GivenPlan) -> Path:
    """The plan's file; `UserError` where it was never written."""
    if not isinstance(given, Plan):
        return Path(given)
    if given.file is None:
        raise UserError("this plan has no file: its arrays lie beside one; make it by gnnplan.plan")
    return given.file


def trace_of(given: GivenTrace) -> Trace:
    """The trace."""
    return given if isinstance(given, Trace) else Trace.load(given)


def output_folder(job: Job, source: object = None) -> Path:
    """Where files of a job go that names no place for them: `out/NAME`.

    Args:
        source: the job's file, whose name counts where the job has none of its own.
    """
    has_none = job.name == Job.model_fields["name"].default
    name = Path(source).stem if has_none and isinstance(source, str | Path) else job.name
    return Path("out") / (re.sub(r"[^\w.-]+", "-", name).strip(".-") or "job")


def _kept_by_content(profile: MachineProfile) -> Path:
    path = cache_folder() / "profiles" / f"given-{profile.fingerprint()}.json"
    if not path.exists():
        with replacing(path) as temporary:
            temporary.write_text(profile.model_dump_json())
    return path
