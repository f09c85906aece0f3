"""Trainings in chunks of the source vertices, by one process that plays the programs of one worker."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch

from benchmarks import _chunks_models
from benchmarks._common import DATASETS, fingerprint_of
from benchmarks._emulated import loaded
from gnnplan.planner.composition.compose import compose
from gnnplan.planner.contracts.technique import Choice, Situation
from gnnplan.planner.graph import Graph
from gnnplan.planner.graph_spec import GraphSpec, NpzGraph, SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.models.module_source import module_of
from gnnplan.planner.models.module_state import matrices_of
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.optimizer import Optimizer
from gnnplan.planner.program.project import project
from gnnplan.planner.search.decide import forward_of
from gnnplan.planner.techniques.registry import technique
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.runtime.execution.executor import ProgramExecutor
from gnnplan.runtime.execution.peers import Workers
from gnnplan.runtime.execution.sparse_rows import SparseRows
from gnnplan.runtime.recorder import Recorder

SEED, NUM_EVALUATIONS = 0, 15
_CPU = torch.device("cpu")


@dataclass(frozen=True)
class Setting:
    """A graph and a model.

    Args:
        aggregate_first: layers sum before they multiply, so that states hold what weights have not met yet.
        rate: of Adam.
        variants: by name, fields of the decision.
    """

    graph_name: str
    model: str
    steps: int
    rate: float
    aggregate_first: bool
    variants: tuple[tuple[str, tuple[tuple[str, float], ...]], ...]

    @property
    def name(self) -> str:
        """In tables."""
        order = "sums first" if self.aggregate_first else "products first"
        return f"{self.model} on {self.graph_name}, {order}, rate {self.rate}"

    @property
    def is_of_attention(self) -> bool:
        """Whether the model has masses, which may fade."""
        return "gat" in self.model

    def fingerprint(self) -> str:
        """Of what its figures are of: the decision's defaults too, but for those that the model has no use for."""
        unused = set() if self.is_of_attention else {"mass_fade"}
        return fingerprint_of([asdict(self), technique("source_chunks").Decision().model_dump(exclude=unused)])

    @property
    def graph(self) -> GraphSpec:
        """Its source."""
        if self.graph_name == "small":
            return SbmGraph(source="sbm", num_nodes=600, average_degree=16, num_features=16, num_classes=4)
        return NpzGraph(source="npz", path=DATASETS / f"{self.graph_name}.npz")

    @property
    def job(self) -> Job:
        """What is trained."""
        build = f"{Path(_chunks_models.__file__)}:{self.model}"
        training = TrainingSpec(epochs=self.steps, learning_rate=self.rate, seed=SEED)
        return Job(name=self.name, graph=self.graph, model=ModelSpec(kind="module", build=build), training=training)


def trained(row: Setting) -> list[dict]:
    """Every variant, from the same weights; a figure is of the step with the best validation."""
    graph, found = loaded(row.graph), []
    _, forward = forward_of(row.job, graph)
    for name, fields in row.variants:
        curve = _curve(row, graph, _composed(row, graph, forward, dict(fields)))
        best = max(curve, key=lambda each: each["val"])
        found.append({"variant": name, "val": best["val"], "test": best["test"], "curve": curve})
        print(f"{row.name}: {name}: val {best['val']:.4f}, test {best['test']:.4f} at step {best['step']}", flush=True)
    return found


def _composed(row: Setting, graph: Graph, forward: Cycle, fields: dict) -> Cycle:
    part = {"part": np.zeros(graph.num_nodes, np.int32)}
    filters = [op.key for op in forward.programs["train"] if op.kind == "filter"]
    of = dict.fromkeys(filters, "aggregate_first") if row.aggregate_first else {}
    choices = [
        Choice("halo_exchange", technique("halo_exchange").Decision(), part),
        Choice("operator_order", technique("operator_order").Decision(of=of), {}),
        Choice("source_chunks", technique("source_chunks").Decision(seed=SEED, **fields), {}),
        Choice("first_aggregation", technique("first_aggregation").Decision(), {}),
    ]
    if graph.has_sparse_features:
        choices.append(Choice("sparse_features", technique("sparse_features").Decision(), {}))
    return compose(forward, choices, Situation(row.job.model, 1, (0,)), Optimizer("adam", row.rate))


def _curve(row: Setting, graph: Graph, cycle: Cycle) -> list[dict]:
    """Accuracies of the splits at some steps."""
    recorder, x = Recorder(_CPU), graph.x
    labels = torch.from_numpy(graph.y)
    inputs = {
        "x": SparseRows(sp.csr_matrix(x), _CPU) if cycle.values["x"].layout == "csr" else torch.from_numpy(x),
        "y": labels if labels.dim() > 1 else labels[:, None],
    }
    module = module_of(row.job.model, graph.num_features, graph.num_classes, SEED)
    start = {name: each.float().clone() for name, each in matrices_of(module, cycle).items()}
    executor = ProgramExecutor(project(cycle, 0), inputs, start, recorder, Workers(recorder))
    curve, pause = [], max(1, row.steps // NUM_EVALUATIONS)
    for step in range(row.steps):
        executor.run(cycle.order[step % len(cycle.order)], step)
        if (step + 1) % pause == 0:
            hits = executor.run("evaluate")["hits"].tolist()
            accuracy = dict(zip(("train", "val", "test"), (right / of for right, of in hits), strict=True))
            curve.append({"step": step + 1, **accuracy})
    return curve
