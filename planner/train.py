"""The main job in one go: plan, simulate, run, compare."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gnnplan.planner.checkpoints import CheckpointOptions
from gnnplan.planner.cluster import Cluster, resolve
from gnnplan.planner.compare import Comparison, compare
from gnnplan.planner.drift import Drift
from gnnplan.planner.elastic.run import Elastic, run_elastic
from gnnplan.planner.graph import Graph
from gnnplan.planner.job import Job
from gnnplan.planner.metrics import METRICS
from gnnplan.planner.models.module_source import module_of, with_source
from gnnplan.planner.perfetto import write_perfetto
from gnnplan.planner.plan import Plan
from gnnplan.planner.plan_files import load_partition, save_plan
from gnnplan.planner.report.partition import write_partition_picture
from gnnplan.planner.report.picture import write_picture
from gnnplan.planner.run import check_importable, run_plan
from gnnplan.planner.run_files import MEASURED_FILE, MODEL_FILE, PLAN_FILE
from gnnplan.planner.search import make_plan, named, simulate_plan
from gnnplan.planner.search.decide import OnStep
from gnnplan.planner.search.mini_batch import plan_mini_batches
from gnnplan.planner.search.predict import NUM_REPLICAS
from gnnplan.planner.sound_plan import load_plan
from gnnplan.planner.trace import Trace
from gnnplan.profiles.launch import Event

_PARTITION_PICTURE = "partition picture"
_FILES = {
    "plan": PLAN_FILE,
    "predicted trace": "predicted.json",
    "measured trace": MEASURED_FILE,
    "model": MODEL_FILE,
    "comparison": "comparison.json",
    "Perfetto trace": "perfetto.json",
    "picture": "epoch.png",
    _PARTITION_PICTURE: "partition.png",
}
NUM_EVALUATIONS = 10  # over a whole training: few enough to cost little, enough to see it learn


@dataclass(frozen=True)
class Trained:
    """What came of a training.

    Args:
        files: by what they are.
        model: the trained `torch.nn.Module`, of a job with one of one's own: the one that was given, else one that was
            built.
    """

    plan: Plan
    predicted: Trace
    measured: Trace
    comparison: Comparison
    files: dict[str, Path]
    model: Any = None

    def _repr_html_(self) -> str | None:
        """The comparison, in a notebook."""
        return self.comparison._repr_html_()

    def __repr__(self) -> str:
        epoch = self.comparison.figure("epoch")
        metric = METRICS[self.measured.metric]
        reached = ", ".join(f"{name} {metric.shown(value)}" for name, value in self.measured.accuracy.items())
        return (
            f"Trained {self.plan.job.name!r}: {len(self.measured.losses)} epochs of {epoch.measured:.4g} s "
            f"({epoch.predicted:.4g} s predicted), loss {self.measured.losses[-1]:.4g}, {metric.words} {reached}\n"
            f"  files: {self.files['plan'].parent}"
        )


def write_plan(
    job: Job, cluster: Cluster | None, graph: Graph | None, path: Path, on_step: OnStep = lambda _: None
) -> Plan:
    """Makes the best plan that fits and writes it to `path`, its partition beside it.

    Args:
        cluster, graph: of mini-batches a cluster that is emulated here or None, and no graph.

    Raises as `make_plan` and `plan_mini_batches` do.
    """
    if job.mini_batch is not None:
        on_step("measuring the stages of a mini-batch")
        made, partition = plan_mini_batches(job, cluster)
    else:
        assert cluster is not None
        assert graph is not None
        made, partition = make_plan(job, cluster, graph, on_step)
    made = named(made, path)
    save_plan(made, partition, path)
    return made.lying_at(path)


def train_job(
    job: Job,
    cluster: Cluster | None,
    folder: Path,
    *,
    graph: Graph | None,
    on_step: OnStep = lambda _: None,
    on_plan: Callable[[Plan], None] = lambda _: None,
    checkpoints: CheckpointOptions | None = None,
    elastic: Elastic | None = None,
    on_event: Callable[[Event], None] | None = None,
) -> Trained:
    """Plans a job, runs the plan here, and lays what was measured over what was predicted.

    Args:
        cluster, graph: as `write_plan` takes them.
        folder: receives the files.
        on_step: told in words what the planner does.
        on_plan: told the plan before it runs.
        checkpoints: as `run_plan` takes them. A run that goes on has the plan that lies in the folder, where it is of
            this job.
        elastic: a run goes on where workers are lost, on whoever of the cluster is left (None: it ends). Then one that
            goes on from checkpoints is planned anew, for who was lost may be back.
        on_event: as `run_plan` takes it.

    Raises as `write_plan` and `run_plan` do.
    """
    if job.model.held is not None:
        check_importable(job.model.held)
    files = {what: folder / name for what, name in _FILES.items() if graph is not None or what != _PARTITION_PICTURE}
    going_on = checkpoints is not None and checkpoints.resume and elastic is None
    plan = (_plan_at(files["plan"], job) if going_on else None) or write_plan(
        job, cluster, graph, files["plan"], on_step
    )
    on_plan(plan)
    predicted = _predicted(plan, files)
    how: dict[str, Any] = {
        "graph": graph,
        "module": job.model.held,
        "num_evaluations": NUM_EVALUATIONS,
        "checkpoints": checkpoints,
        "on_event": _with_drift(on_event, Drift.of(plan, predicted)),
    }
    if elastic:
        among = replace(elastic, placement=plan.placement if cluster is None else resolve(cluster))
        measured = run_elastic(files["plan"], folder, among, **how)
        if measured.plan_fingerprint != plan.fingerprint():
            plan = load_plan(files["plan"])
            predicted = _predicted(plan, files)
    else:
        measured = run_plan(files["plan"], folder, **how)
    if graph is not None:
        write_partition_picture(files[_PARTITION_PICTURE], plan, load_partition(plan, files["plan"]), graph)
    comparison = _compared(predicted, measured, files)
    return Trained(plan, predicted, measured, comparison, files, _trained_module(plan, job, files["model"]))


def _predicted(plan: Plan, files: Mapping[str, Path]) -> Trace:
    predicted = simulate_plan(plan, NUM_REPLICAS)
    predicted.save(files["predicted trace"])
    return predicted


def _compared(predicted: Trace, measured: Trace, files: Mapping[str, Path]) -> Comparison:
    """What was measured laid over what was predicted, as numbers, trace and picture."""
    comparison = compare(predicted, measured)
    comparison.save(files["comparison"])
    write_perfetto(files["Perfetto trace"], [predicted, measured], ["predicted", "measured"])
    write_picture(files["picture"], predicted, measured)
    return comparison


def _with_drift(on_event: Callable[[Event], None] | None, drift: Drift) -> Callable[[Event], None] | None:
    """The handler, which is also told in a note where epochs drift from what was predicted."""
    if on_event is None:
        return None

    def told(event: Event) -> None:
        on_event(event)
        if words := drift.words_of(event):
            on_event({"event": "note", "words": words})

    return told


def _trained_module(plan: Plan, job: Job, path: Path) -> Any:
    """A module of one's own with the weights of a file (None: the job has none)."""
    if job.model.kind != "module":
        return None
    import torch

    facts = plan.graph
    module = module_of(job.model, facts.num_features, facts.num_classes, job.training.seed)
    module.load_state_dict(torch.load(path, weights_only=True))
    return module


def _plan_at(path: Path, job: Job) -> Plan | None:
    """The plan of an earlier run; None where there is none, or one of another job."""
    found = load_plan(path) if path.exists() else None
    return found if found is not None and found.job in with_source(job).forms else None
