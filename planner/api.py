"""The steps as plain functions, open to scripts: each takes files or objects.

import gnnplan
job = {"graph": "my_graph.npz", "model": "gcn", "epochs": 100}
gnnplan.train(job)                           # all of it on this machine, or step by step:
profile = gnnplan.profile(quick=True)
plan = gnnplan.plan(job, profile)            # or "cluster.toml", or nothing: this machine
predicted = gnnplan.simulate(plan, num_replicas=1000)
measured = gnnplan.run(plan, "run")          # or gnnplan.prepare_run, for hosts of your own
why = gnnplan.explain(plan)
difference = gnnplan.diff(plan, "other.json")
page = gnnplan.report("run", "report.html")
comparison = gnnplan.compare(predicted, measured)
better = gnnplan.calibrate([(plan, measured)]).profiles
table = gnnplan.choices(job, ["a.toml", "b.toml"])
points = gnnplan.whatif(job, "sweep.toml").points
by_batches = gnnplan.plan("mini_batch.toml")  # measured on this machine
first = gnnplan.pilot(job, 0.9).plan  # full batch or mini-batches: what comes to this accuracy first
mine = gnnplan.train(model=my_module, graph=data, epochs=100).model  # a torch.nn.Module and PyG's Data, trained
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gnnplan.planner.batch_spec import MiniBatchSpec
from gnnplan.planner.calibrate import calibrate
from gnnplan.planner.checkpoints import DEFAULT_NUM_KEPT, CheckpointOptions
from gnnplan.planner.cluster import Cluster
from gnnplan.planner.cluster_profiles import profile_cluster
from gnnplan.planner.compare import Comparison
from gnnplan.planner.compare import compare as compare_traces
from gnnplan.planner.elastic.run import Elastic, run_elastic
from gnnplan.planner.explain.diff import diff_plans
from gnnplan.planner.explain.difference import Difference
from gnnplan.planner.explain.explain import explain_plan
from gnnplan.planner.explain.explanation import Explanation
from gnnplan.planner.forecast.simulate import simulate_weather
from gnnplan.planner.given import (
    GivenCluster,
    GivenGraph,
    GivenJob,
    GivenPlan,
    GivenTrace,
    cluster_of,
    graph_of,
    job_of,
    output_folder,
    plan_file,
    plan_of,
    trace_of,
)
from gnnplan.planner.graph import Graph
from gnnplan.planner.job import Job
from gnnplan.planner.job_pins import Partitioner
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.money import Choice
from gnnplan.planner.pilot.best import Piloted, plan_to_accuracy
from gnnplan.planner.pilot.run import DEFAULT_EPOCHS, families_of
from gnnplan.planner.plan import Plan
from gnnplan.planner.report.notebook import register
from gnnplan.planner.report_file import write_report
from gnnplan.planner.run import prepare_run as prepare_plan
from gnnplan.planner.run import run_plan
from gnnplan.planner.run_files import PLAN_FILE
from gnnplan.planner.search import simulate_plan
from gnnplan.planner.search.decide import OnStep
from gnnplan.planner.statistics.contract import Statistics
from gnnplan.planner.statistics.measure import PARTS, measure
from gnnplan.planner.sweep.contract import Sweep
from gnnplan.planner.sweep.points import OnPoint
from gnnplan.planner.sweep.result import SweepResult
from gnnplan.planner.sweep.run import run_sweep
from gnnplan.planner.trace import Trace
from gnnplan.planner.train import Trained, train_job, write_plan
from gnnplan.planner.weather.fit import fit_weather
from gnnplan.planner.what_if import compare_clusters
from gnnplan.profiles.contract import check_writable
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.launch import Event
from gnnplan.profiles.profiler import profile_machine

register()  # what notebooks show

__all__ = [
    "calibrate",
    "choices",
    "compare",
    "diff",
    "explain",
    "fit_weather",
    "load_graph",
    "pilot",
    "plan",
    "prepare_run",
    "profile_cluster",
    "profile_machine",
    "report",
    "run",
    "simulate",
    "simulate_weather",
    "statistics",
    "train",
    "whatif",
]


def plan(
    job: GivenJob | None = None,
    cluster: GivenCluster = None,
    path: str | Path | None = None,
    *,
    graph: GivenGraph | None = None,
    model: Any = None,
    epochs: int | None = None,
    on_step: OnStep = lambda _: None,
) -> Plan:
    """Makes the best plan that fits and writes it to `path`, its partition beside it.

    Args:
        job: a job, its file, or a dict of its keys, short forms included.
        cluster: a cluster or its file; a profile or its file, for the machine it was measured on; None: this machine,
            which is profiled where no profile of it is kept. Mini-batches are measured where they run: on this machine,
            or inside `gnnplan emulate` on the cluster.
        path: None: `out/NAME/plan.json`.
        graph: a `Graph` or a PyG `Data`, where it is in memory already; else the job's source is loaded.
        model: a `torch.nn.Module` on (x, edge_index) that is to be trained, from the weights that it has.
        epochs: of a job that is a dict or nothing.
        on_step: told in words what the planner does.

    Raises:
        UserError: what is given cannot be read, or the job cannot run there at all.
        NoPlanFitsError: no plan fits the memory.
    """
    its_job = _job_to_plan(job, graph, model, epochs)
    path = Path(path) if path else output_folder(its_job, job) / PLAN_FILE
    return write_plan(its_job, _where(its_job, cluster), _graph_of(its_job, graph), path, on_step)


def pilot(
    job: GivenJob,
    accuracy: float,
    cluster: GivenCluster = None,
    path: str | Path | None = None,
    *,
    graph: GivenGraph | None = None,
    batches: Sequence[MiniBatchSpec] = (),
    epochs: int = DEFAULT_EPOCHS,
    on_step: OnStep = lambda _: None,
    on_event: Callable[[Event], None] | None = None,
) -> Piloted:
    """The plan that comes to an accuracy first, of full batch and of mini-batches; for the least money if so asked.

    Both families are trained for a short while on this machine, as `gnnplan pilot` does. Curves that lie beside `path`
    are not made again.

    Args:
        job, path, graph, on_step: as `plan` takes them.
        accuracy: on the validation vertices, 0 to 1.
        cluster: as `plan` takes it. Mini-batches are planned for this machine alone.
        batches: kinds of mini-batches, a family each (none: the job's, else 10 neighbours a hop and batches of 512).
        epochs: that each family is trained for at most.
        on_event: called with `{"event": "epoch", "words", "epoch", "epochs", "accuracy"}`.

    Raises:
        UserError: what is given cannot be read, or the job has no pilots.
        NoPlanFitsError: no plan fits the memory, or no family comes to the accuracy.
        RunFailedError: a pilot failed.
    """
    its_job = job_of(job, graph)
    families_of(its_job, batches)  # what has no pilot is said before anything is measured
    path = Path(path) if path else output_folder(its_job, job) / PLAN_FILE
    where, its_graph, is_here = cluster_of(cluster), graph_of(graph, its_job), cluster is None
    options: dict[str, Any] = {"epochs": epochs, "batches": batches, "on_step": on_step, "on_event": on_event}
    return plan_to_accuracy(its_job, where, its_graph, path, accuracy, is_here=is_here, **options)


def _job_to_plan(job: GivenJob | None, graph: GivenGraph | None, model: Any, epochs: int | None) -> Job:
    its_job = job_of(job, graph, model, epochs)
    if its_job.mini_batch is not None and graph is not None:
        raise UserError(f"{its_job.name}: workers of mini-batches load the graph; name its file in the job, not graph=")
    return its_job


def _where(job: Job, cluster: GivenCluster) -> Cluster | None:
    return None if job.mini_batch is not None and cluster is None else cluster_of(cluster)


def _graph_of(job: Job, graph: GivenGraph | None) -> Graph | None:
    """The graph; None of mini-batches, whose workers load it."""
    return None if job.mini_batch is not None else graph_of(graph, job)


def choices(
    job: GivenJob,
    clusters: Sequence[GivenCluster],
    folder: str | Path | None = None,
    *,
    graph: GivenGraph | None = None,
    on_step: OnStep = lambda _: None,
) -> list[Choice]:
    """The job planned on every cluster, side by side; the graph is loaded once.

    Args:
        job, graph, on_step: as `plan` takes them.
        clusters: each as `plan` takes it.
        folder: receives `NAME.json` for every cluster with a plan, by its file's name (None: `out/JOB`).
    """
    its_job = job_of(job, graph)
    folder = Path(folder) if folder else output_folder(its_job, job)
    named = _distinct_names(clusters)
    resolved = {name: cluster_of(given) for name, given in named.items()}
    for name in named:
        check_writable(folder / f"{name}.json")
    return compare_clusters(its_job, resolved, graph_of(graph, its_job), folder, on_step)


def statistics(
    job: GivenJob,
    *,
    graph: GivenGraph | None = None,
    parts: Sequence[int] = PARTS,
    partitioner: Partitioner = "kaminpar",
    on_step: OnStep = lambda _: None,
) -> Statistics:
    """Sizes, degrees and cuts of a job's graph: enough for `whatif`.

    Args:
        job, graph, on_step: as `plan` takes them.
        parts: numbers of equal parts that the graph is cut into.
        partitioner: that cuts.
    """
    return measure(graph_of(graph, job_of(job, graph)), parts, partitioner, on_step)


def whatif(
    job: GivenJob,
    sweep: Sweep | str | Path,
    *,
    graph: GivenGraph | None = None,
    num_checks: int = 0,
    on_step: OnStep = lambda _: None,
    on_point: OnPoint = lambda done, total: None,
) -> SweepResult:
    """Prices a job on every machine and model setting of a sweep, from statistics of its graph.

    Args:
        job, graph, on_step: as `plan` takes them; the job's graph may be statistics alone.
        sweep: a sweep or its file.
        num_checks: of the points, on how many a plan is searched on the graph itself.
        on_point: told how many points are done, of how many.

    Raises:
        UserError: what is given cannot be read, or asks for too much.
    """
    its_job = job_of(job, graph)
    its_sweep = sweep if isinstance(sweep, Sweep) else Sweep.load(sweep)
    its_graph = None if graph is None else graph_of(graph, its_job)
    return run_sweep(its_job, its_sweep, graph=its_graph, num_checks=num_checks, on_step=on_step, on_point=on_point)


def _distinct_names(clusters: Sequence[GivenCluster]) -> dict[str, GivenCluster]:
    named: dict[str, GivenCluster] = {}
    for given in clusters:
        name = Path(given).stem if isinstance(given, str | Path) else "here" if given is None else given.name
        if name in named:
            raise UserError(f"two clusters are called {name!r}, and each plan is a file of its name; rename one")
        named[name] = given
    return named


def simulate(plan: GivenPlan, num_replicas: int = 0) -> Trace:
    """Plays a plan's schedule on the virtual clock; needs neither graph nor devices.

    Args:
        plan: a plan or its file.
        num_replicas: epochs to be played beside it whose tasks fluctuate as they were measured to.
    """
    return simulate_plan(plan_of(plan), num_replicas)


def run(
    plan: GivenPlan,
    folder: str | Path,
    *,
    graph: GivenGraph | None = None,
    model: Any = None,
    timeout_s: float = 300.0,
    num_evaluations: int = 0,
    checkpoint_every: str | int | None = None,
    keep: int = DEFAULT_NUM_KEPT,
    resume: bool = False,
    elastic: bool | int = False,
    on_event: Callable[[Event], None] | None = None,
) -> Trace:
    """Runs a plan on this machine, or on the emulated cluster around it, and returns what was measured.

    Args:
        plan: a plan or its file.
        folder, timeout_s, num_evaluations, on_event: as `gnnplan.planner.run.run_plan` takes them.
        graph: where it is in memory already; else the job's source is loaded again.
        checkpoint_every: `"10s"`, a number of epochs, or `"never"` (None: every minute).
        keep: checkpoints that stay.
        resume: go on from the last checkpoint in the folder, where there is one.
        elastic: where workers are lost, plan for who is left and go on from the last checkpoint; of a number, so many
            times at most.
        model: the module that the plan was made for, where that has no file. It is left as it is: `model.pt` in the
            folder is its `state_dict` after training.
    """
    how: dict[str, Any] = {
        "graph": _graph_in_memory(plan, graph),
        "module": _module_in_memory(plan, model),
        "timeout_s": timeout_s,
        "num_evaluations": num_evaluations,
        "checkpoints": CheckpointOptions.of(checkpoint_every, keep, resume),
        "on_event": on_event,
    }
    if asked := Elastic.of(elastic):
        return run_elastic(plan_file(plan), Path(folder), asked, **how)
    return run_plan(plan_file(plan), Path(folder), **how)


def prepare_run(
    plan: GivenPlan, folder: str | Path, *, graph: GivenGraph | None = None, model: Any = None
) -> dict[str, Path]:
    """Writes what the plan's hosts need to run it, wherever they are; returns each one's script, by its name."""
    in_memory = {"graph": _graph_in_memory(plan, graph), "module": _module_in_memory(plan, model)}
    return prepare_plan(plan_file(plan), Path(folder), **in_memory)


def _module_in_memory(plan: GivenPlan, model: Any) -> Any:
    return plan.job.model.held if model is None and isinstance(plan, Plan) else model


def _graph_in_memory(plan: GivenPlan, graph: GivenGraph | None) -> Graph | None:
    if graph is None:
        return None
    return graph_of(graph, (plan if isinstance(plan, Plan) else Plan.load(plan)).job)  # who takes both checks the plan


def compare(predicted: GivenTrace, measured: GivenTrace) -> Comparison:
    """Compares the traces of one plan; `UserError` where they are not of the same plan."""
    return compare_traces(trace_of(predicted), trace_of(measured))


def explain(plan: GivenPlan, *, graph: GivenGraph | None = None, on_step: OnStep = lambda _: None) -> Explanation:
    """Why a plan takes what it takes (`gnnplan.planner.explain.explain.explain_plan`).

    Args:
        plan: a plan or its file.
        graph: of the plan; with it the search is run again where memory may have limited a choice.
    """
    return explain_plan(plan_of(plan), graph=_graph_in_memory(plan, graph), on_step=on_step)


def diff(
    one: GivenPlan, other: GivenPlan, *, graph: GivenGraph | None = None, on_step: OnStep = lambda _: None
) -> Difference:
    """What differs between two plans, in seconds of an epoch (`gnnplan.planner.explain.diff.diff_plans`).

    Args:
        one, other: plans that know their files, or the files.
    """
    return diff_plans(plan_file(one), plan_file(other), graph=_graph_in_memory(one, graph), on_step=on_step)


def report(source: GivenPlan, path: str | Path, *, on_step: OnStep = lambda _: None) -> Path:
    """Writes a plan, or a run over its plan, as one HTML file that needs nothing else.

    Args:
        source: a plan or its file, or the folder of a run.
        on_step: told in words what is done.
    """
    return write_report(source if isinstance(source, Plan) else Path(source), Path(path), on_step=on_step)


def train(
    job: GivenJob | None = None,
    cluster: GivenCluster = None,
    folder: str | Path | None = None,
    *,
    graph: GivenGraph | None = None,
    model: Any = None,
    epochs: int | None = None,
    on_step: OnStep = lambda _: None,
    on_plan: Callable[[Plan], None] = lambda _: None,
    checkpoint_every: str | int | None = None,
    keep: int = DEFAULT_NUM_KEPT,
    resume: bool = False,
    elastic: bool | int = False,
    on_event: Callable[[Event], None] | None = None,
) -> Trained:
    """Plans a job, runs the plan here, and lays what was measured over what was predicted.

    Args:
        job, cluster, graph, model, epochs, on_step: as `plan` takes them. A module that is given ends with the trained
            weights.
        folder: receives every file (None: `out/NAME`).
        on_plan: told the plan before it runs.
        checkpoint_every, keep, on_event: as `run` takes them.
        resume: go on from the last checkpoint in the folder, with the plan that lies there.
        elastic: as `run` takes it; all workers of the cluster may stand in, and a run that goes on is planned anew.

    Raises as `plan` and `run` do.
    """
    its_job = _job_to_plan(job, graph, model, epochs)
    folder = Path(folder) if folder else output_folder(its_job, job)
    check_writable(folder / PLAN_FILE)
    return train_job(
        its_job,
        _where(its_job, cluster),
        folder,
        graph=_graph_of(its_job, graph),
        on_step=on_step,
        on_plan=on_plan,
        checkpoints=CheckpointOptions.of(checkpoint_every, keep, resume),
        elastic=Elastic.of(elastic),
        on_event=on_event,
    )
