"""Accuracy by chunks of the source vertices, of models with a LayerNorm at each layer; no second is measured.

One process plays the programs of one worker on the kernels that plans run on. More workers have the same numbers
(`tests/planner/techniques/source_chunks/`), so these are also those of 1 to 8 parts. All variants of a row take as many
steps, evaluate as often, and begin with the same weights. Layers sum before they multiply, so that no state holds
products of older weights; one row multiplies first, to show what that costs. A figure is the test accuracy at the best
validation. A row is kept when it has ended, and is not run again under the same settings.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
from rich.console import Console
from rich.table import Table

from benchmarks import _chunks_models
from benchmarks._common import DATASETS, fingerprint_of, why_absent
from benchmarks._emulated import loaded
from benchmarks._results import about, keep, kept_parts, record_of
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

_FILE, _SEED, NUM_EVALUATIONS = "source_chunks_accuracy", 0, 15
_CPU = torch.device("cpu")
_PUBLISHED = "as published"
_FADE = 0.5


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
    def graph(self) -> GraphSpec:
        """Its source."""
        if self.graph_name == "small":
            return SbmGraph(source="sbm", num_nodes=600, average_degree=16, num_features=16, num_classes=4)
        return NpzGraph(source="npz", path=DATASETS / f"{self.graph_name}.npz")

    @property
    def job(self) -> Job:
        """What is trained."""
        build = f"{Path(_chunks_models.__file__)}:{self.model}"
        training = TrainingSpec(epochs=self.steps, learning_rate=self.rate, seed=_SEED)
        return Job(name=self.name, graph=self.graph, model=ModelSpec(kind="module", build=build), training=training)


def _variants(*counts: int, of_attention: bool = False) -> tuple[tuple[str, tuple[tuple[str, float], ...]], ...]:
    plain = tuple((f"B = {count}", (("num_chunks", count),)) for count in counts)
    anew = tuple((f"B = {n}, anew every B passes", (("num_chunks", n), ("exact_every", n))) for n in counts if n == 10)
    published = (("follow_mean", False), ("mass_fade", 1.0))
    resting = tuple((f"B = {n}, {_PUBLISHED}", (("num_chunks", n), *published)) for n in counts if n in (2, 5, 10))
    other, words = (("mass_fade", 1.0), "masses do not fade") if of_attention else (("fade", _FADE), "states fade")
    fading = tuple((f"B = {n}, {words}", (("num_chunks", n), other)) for n in counts if n in (5, 10, 20))
    return (*plain, *fading, *anew, *resting)


_ROWS = (
    ("amazon_photo", "sage_3"),
    ("amazon_photo", "gcn_3"),
    ("amazon_photo", "gat_3"),
    ("cora_ml", "gat_3"),
    ("cora_ml", "sage_3"),
    ("cora_ml", "gcn_3"),
    ("facebook_page_page", "sage_3"),
    ("fb100_cornell5", "sage_3"),
    ("fb100_cornell5", "gcn_3"),
    ("flickr7k", "sage_3"),
)


def settings_of(quick: bool) -> list[Setting]:
    """Every row, whether its graph is here or not."""
    if quick:
        return [Setting("small", "sage_3", 20, 0.01, True, _variants(1, 2, 10))]
    counts = 1, 2, 5, 10, 20
    of_rows = ((graph, model, _variants(*counts, of_attention=model == "gat_3")) for graph, model in _ROWS)
    return [
        Setting("amazon_photo", "sage_3", 150, 0.003, False, _variants(*counts)),
        *(Setting(graph, model, 150, 0.003, True, variants) for graph, model, variants in of_rows),
    ]


def main(quick: bool) -> dict:
    """Runs the rows that are not kept; the quick form keeps nothing."""
    rows = {each.name: each for each in settings_of(quick) if not why_absent(each.name, each.graph)}
    prints = {
        name: fingerprint_of([asdict(row), technique("source_chunks").Decision().model_dump()])
        for name, row in rows.items()
    }
    results = {} if quick else kept_parts(_FILE, "rows", "row", prints)
    for name, row in rows.items():
        if name not in results:
            results[name] = {"row": name, "settings": prints[name], **about(), "variants": _of(row)}
            if not quick:
                keep(_FILE, record_of(_FILE, _summary(results)))
    _show(results)
    return _summary(results)


def _of(row: Setting) -> list[dict]:
    graph, found = loaded(row.graph), []
    _, forward = forward_of(row.job, graph)
    for name, fields in row.variants:
        curve = _trained(row, graph, _composed(row, graph, forward, dict(fields)))
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
        Choice("source_chunks", technique("source_chunks").Decision(seed=_SEED, **fields), {}),
        Choice("first_aggregation", technique("first_aggregation").Decision(), {}),
    ]
    if graph.has_sparse_features:
        choices.append(Choice("sparse_features", technique("sparse_features").Decision(), {}))
    return compose(forward, choices, Situation(row.job.model, 1, (0,)), Optimizer("adam", row.rate))


def _trained(row: Setting, graph: Graph, cycle: Cycle) -> list[dict]:
    """Accuracies of the splits at some steps."""
    recorder, x = Recorder(_CPU), graph.x
    labels = torch.from_numpy(graph.y)
    inputs = {
        "x": SparseRows(sp.csr_matrix(x), _CPU) if cycle.values["x"].layout == "csr" else torch.from_numpy(x),
        "y": labels if labels.dim() > 1 else labels[:, None],
    }
    module = module_of(row.job.model, graph.num_features, graph.num_classes, _SEED)
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


def _summary(results: dict[str, dict]) -> dict:
    gaps: dict[str, list[float]] = {}
    for result in results.values():
        exact, *others = result["variants"]
        for each in others:
            gaps.setdefault(each["variant"], []).append(100 * (exact["test"] - each["test"]))
    worst = {name: max(each) for name, each in gaps.items()}
    of_sage = [
        (each["variant"], 100 * (result["variants"][0]["test"] - each["test"]))
        for name, result in results.items()
        if name.startswith("sage")
        for each in result["variants"][1:]
    ]
    return {
        "graphs": len(results),
        "worst_accuracy_gap_pct": worst,
        "worst_sage_gap_pct": max(gap for name, gap in of_sage if "," not in name),
        "worst_published_sage_gap_pct": max((gap for name, gap in of_sage if name.endswith(_PUBLISHED)), default=None),
        "rows": list(results.values()),
    }


def _show(results: dict[str, dict]) -> None:
    table = Table(title="test accuracy at the best validation, and the step of it")
    for column in ("row", "variant", "test", "step"):
        table.add_column(column, justify="left" if column in ("row", "variant") else "right")
    for result in results.values():
        for each in result["variants"]:
            step = max(each["curve"], key=lambda at: at["val"])["step"]
            table.add_row(result["row"], each["variant"], f"{each['test']:.1%}", str(step))
    Console(width=120).print(table)
