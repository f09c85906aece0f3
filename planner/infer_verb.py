"""`gnnplan.infer`: predictions or embeddings of a whole graph, of a plan or of a job that is planned first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gnnplan.planner import api
from gnnplan.planner.given import GivenGraph, GivenJob, graph_of, output_folder
from gnnplan.planner.inference.forward import ForwardPrediction
from gnnplan.planner.inference.infer import Inferred, infer_plan, weights_in
from gnnplan.planner.job import Job
from gnnplan.planner.plan import Plan
from gnnplan.planner.search.decide import OnStep
from gnnplan.planner.sound_plan import load_plan
from gnnplan.profiles.contract import read_mapping
from gnnplan.profiles.launch import Event

OUTPUT_FILE = "predictions.npy"


def infer(
    source: Plan | GivenJob,
    weights: str | Path,
    output: str | Path | None = None,
    *,
    of: str = "",
    graph: GivenGraph | None = None,
    model: Any = None,
    timeout_s: float = 300.0,
    on_step: OnStep = lambda _: None,
    on_prediction: Callable[[ForwardPrediction], None] = lambda _: None,
    on_event: Callable[[Event], None] | None = None,
) -> Inferred:
    """What a trained model says of every vertex of its graph, written as a `.npy` in the order of the vertices.

    Args:
        source: a plan, or its file; or a job, which is planned first for this machine.
        weights: `model.pt`, a checkpoint's folder, or the folder of a run.
        output: float32 [N, C] (None: `predictions.npy` beside the plan).
        of: key of another operator of the evaluation, as `gnnplan show` prints it: the rows that it makes, such as
            embeddings, are written instead of the logits.
        graph, model, timeout_s: as `gnnplan.run` takes them.
        on_step: told in words what the planner does.
        on_prediction: told what the forward half is predicted to take, before it runs.

    Raises:
        UserError: the weights are none of this model.
        RunFailedError: a worker failed.
    """
    weights_in(Path(weights))  # before anything is planned
    path = _plan_of(source, graph, model, on_step)
    job = load_plan(path).job
    held = model if model is not None else source.job.model.held if isinstance(source, Plan) else None
    return infer_plan(
        path,
        Path(weights),
        Path(output) if output else path.parent / OUTPUT_FILE,
        of=of,
        graph=None if graph is None else graph_of(graph, job),
        module=held,
        timeout_s=timeout_s,
        on_event=on_event,
        on_prediction=on_prediction,
    )


def _plan_of(source: Plan | GivenJob, graph: GivenGraph | None, model: Any, on_step: OnStep) -> Path:
    """The file of a plan, which is made where a job is given."""
    if isinstance(source, Plan):
        return api.plan_file(source)
    if isinstance(source, str | Path) and read_mapping(Path(source)).get("kind") == Plan.KIND:
        return Path(source)
    job = source if isinstance(source, Job) else api.job_of(source, graph, model)
    path = output_folder(job, source) / "infer_plan.json"
    return api.plan_file(api.plan(source, None, path, graph=graph, model=model, on_step=on_step))
