"""Runs the forward half of a plan once, on its workers, and writes the rows in the graph's order."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gnnplan.planner.checkpoints import FOLDER, MANIFEST_FILE, checkpoints_in
from gnnplan.planner.graph import Graph
from gnnplan.planner.inference.forward import Forward, ForwardPrediction, forward_of, predict_forward
from gnnplan.planner.plan import Plan
from gnnplan.planner.plan_files import save_plan
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.run import cycle_of, graph_and_partition, write_shards
from gnnplan.planner.run_files import MODEL_FILE, PLAN_FILE
from gnnplan.planner.sound_plan import load_plan
from gnnplan.profiles.contract import check_writable, replacing
from gnnplan.profiles.errors import RunFailedError, UserError
from gnnplan.profiles.folder import holding, make_inside
from gnnplan.profiles.launch import Event, HostGroup, hosts_here, launch

ROWS = "rows_{}.npy"


@dataclass(frozen=True)
class Inferred:
    """What an inference has made.

    Args:
        path: of a `.npy`, float32 [N, C], row v is vertex v of the graph.
        seconds: of the forward half, once every worker was ready.
    """

    path: Path
    shape: tuple[int, int]
    seconds: float
    predicted: ForwardPrediction


def infer_plan(
    plan_path: Path,
    weights: Path,
    output: Path,
    *,
    of: str = "",
    graph: Graph | None = None,
    module: Any = None,
    timeout_s: float = 300.0,
    on_event: Callable[[Event], None] | None = None,
    on_prediction: Callable[[ForwardPrediction], None] = lambda _: None,
) -> Inferred:
    """Predictions of the whole graph, or what another operator of the evaluation makes of every vertex.

    Args:
        weights: `model.pt`, a checkpoint's folder, or a run's folder: then its `model.pt`, else its last checkpoint.
        output: a `.npy` file, float32 [N, C], whose rows are in the order of the graph's vertices.
        of: an operator's key, as `gnnplan show` prints it (empty: the logits).
        graph, module, timeout_s: as `gnnplan.planner.run.run_plan` takes them.
        on_prediction: told what it is predicted to take, before anything runs.

    Raises:
        UserError: the weights are none of this plan's model, or the plan does not belong to this graph.
        RunFailedError: a worker failed.
    """
    plan, weights = load_plan(plan_path, module), weights_in(weights)
    if plan.mini_batch is not None or plan.partial is not None:
        raise UserError(f"{plan_path}: plans of mini-batches and of partial reduce have no inference yet")
    check_writable(output)
    predicted = predict_forward(forward_of(plan.cycle.cycle(), of), plan.placement)
    on_prediction(predicted)
    _check_room(plan, predicted)
    hosts = hosts_here(plan.placement.workers_by_host, plan.placement.threads_by_host)
    graph, partition = graph_and_partition(plan, plan_path, graph)
    assert graph is not None, "plans of mini-batches were refused"
    with _scratch(output.parent / f"{output.stem}.infer") as folder:
        write_shards(plan, graph, partition, make_inside(folder, "shards"))
        save_plan(plan, partition, folder / PLAN_FILE)
        arguments = [str(weights.resolve()), str(folder), f"--timeout-s={timeout_s}", f"--of={of}"]
        seconds = _run_forward(hosts, folder, arguments, on_event)
        shape = _put_together(forward_of(cycle_of(plan, graph, partition), of), graph.num_nodes, folder, output)
    return Inferred(output, shape, seconds, predicted)


@contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """A folder that is held, and removed in the end; where workers failed it stays, for it has what they said."""
    is_kept = True  # else that of another one who runs in it would go
    try:
        with holding(folder):
            is_kept = False
            try:
                yield folder
            except RunFailedError:
                is_kept = True
                raise
    finally:
        if not is_kept:
            shutil.rmtree(folder, ignore_errors=True)


def _run_forward(
    hosts: Sequence[HostGroup], folder: Path, arguments: Sequence[str], on_event: Callable[[Event], None] | None
) -> float:
    """Seconds of the forward half, as its slowest worker tells them; it leaves every worker's rows in the folder."""
    told: list[float] = []

    def hear(event: Event) -> None:
        told.extend([event["seconds"]] if event["event"] == "inferred" else [])
        if on_event:
            on_event(event)

    with_plan = [str(folder / PLAN_FILE), *arguments]
    launch("gnnplan.runtime.inference", with_plan, hosts=hosts, folder=folder, on_event=hear)
    return max(told, default=0.0)


def weights_in(path: Path) -> Path:
    """The file of a model, or the folder of a checkpoint; `UserError` where there is neither."""
    if path.is_file() or (path / MANIFEST_FILE).is_file():
        return path
    if (path / MODEL_FILE).is_file():
        return path / MODEL_FILE
    whole, _ = checkpoints_in(path) if (path / FOLDER).is_dir() else ([], [])
    if not whole:
        raise UserError(f"{path}: no {MODEL_FILE}, no checkpoint, and no folder that has one")
    return whole[0].folder


def _check_room(plan: Plan, predicted: ForwardPrediction) -> None:
    for rank, (worker, needed) in enumerate(zip(plan.placement.workers, predicted.peak_bytes, strict=True)):
        if needed > worker.memory_bytes:
            raise UserError(
                f"worker {rank} ({worker.host}) would need {needed:,} bytes and has {worker.memory_bytes:,}; plan for "
                f"other machines"
            )


def _put_together(forward: Forward, num_nodes: int, folder: Path, output: Path) -> tuple[int, int]:
    cycle: Cycle = forward.cycle
    value = forward.value
    space = cycle.spaces[value.space]
    assert cycle.arrays
    shape = (num_nodes, value.width)
    with replacing(output) as temporary:
        with temporary.open("wb") as sink:  # numpy would add an ending to the name
            np.lib.format.write_array_header_1_0(sink, {"descr": "<f4", "fortran_order": False, "shape": shape})
            begin = sink.tell()
            size = begin + 4 * shape[0] * shape[1]
            os.posix_fallocate(sink.fileno(), 0, size)  # without room writing to a page would end the process
        out = np.memmap(temporary, np.float32, "r+", begin, shape)
        for rank in cycle.workers:
            own = cycle.arrays.ids[value.space][rank][: space.num_own[rank]]
            start, stop = value.columns[rank] if value.columns else (0, value.width)
            out[own, start:stop] = np.load(folder / ROWS.format(rank), allow_pickle=False)
        out.flush()
        del out
    return shape
