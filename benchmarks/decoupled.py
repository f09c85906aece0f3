"""A coupled model beside its decoupled form on real graphs, 2 workers: accuracy, and seconds of an epoch.

GCN and GAT of 3 layers, 200 epochs, a random split of 60/20/20, and three seeds of the first weights. Both forms have
one job but for the model, and run in turn, so that a slow spell of the machine hits both. What the planner takes where
both are allowed is said beside what was measured to be faster. A model on a graph is kept as it ends, so an
interrupted benchmark goes on; `missing` names what is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks._common import OUT, dataset, fingerprint_of, on_all, this_machine
from benchmarks._results import Parts
from gnnplan.planner import api
from gnnplan.planner.cluster import Cluster
from gnnplan.planner.fidelity import DECOUPLED
from gnnplan.planner.graph import Graph
from gnnplan.planner.graph_spec import NpzGraph
from gnnplan.planner.job import Job
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.model_spec import ModelKind, ModelSpec
from gnnplan.planner.training_spec import TrainingSpec

GRAPHS = ("amazon_photo", "coauthor_cs", "fb100_cornell5")
KINDS: tuple[ModelKind, ...] = ("gcn", "gat")
NUM_WORKERS, NUM_LAYERS, NUM_SEEDS, NUM_EPOCHS = 2, 3, 3, 200
_FILE, _FORMS = "decoupled", {"coupled": 0, "decoupled": 1}


def main(quick: bool) -> dict:
    """Trains both forms of every model on every graph with each seed; quick: one graph, model and seed, few epochs."""
    folder = OUT / f"decoupled{'_quick' if quick else ''}"
    graphs, kinds, seeds, epochs = (GRAPHS[:1], KINDS[:1], 1, 20) if quick else (GRAPHS, KINDS, NUM_SEEDS, NUM_EPOCHS)
    jobs = {
        f"{name} {kind}": [_job(name, kind, seed, epochs) for seed in range(seeds)] for name in graphs for kind in kinds
    }
    settings = {name: fingerprint_of([[job.model, job.training] for job in each]) for name, each in jobs.items()}
    parts = Parts(_FILE, {"rows": settings}, partial(_figures, epochs), is_kept=not quick)
    for name, each in jobs.items():
        parts.add("rows", name, partial(_row, each, folder))
    record = parts.record()
    _show(record["rows"])
    return record


def _figures(epochs: int, parts: Mapping[str, Mapping[str, dict]]) -> dict:
    rows = list(parts["rows"].values())
    return {
        "layers": NUM_LAYERS,
        "epochs": epochs,
        "worst_accuracy_gap_pct": min(row["decoupled_accuracy_pct"] - row["coupled_accuracy_pct"] for row in rows),
        "epoch_speedup": float(np.exp(np.mean([np.log(row["epoch_speedup"]) for row in rows]))),
        "faster_form_taken": sum(row["taken"] == row["faster"] for row in rows) / len(rows),
    }


def _job(name: str, kind: ModelKind, seed: int, epochs: int) -> Job:
    spec = NpzGraph(source="npz", path=dataset(name), split="random", split_seed=0)
    model = ModelSpec(kind=kind, num_layers=NUM_LAYERS, hidden_channels=64, heads=4, dropout=0.5)
    training = TrainingSpec(epochs=epochs, learning_rate=0.01, seed=seed)
    return Job(name=f"{name}-{kind}-{seed}", graph=spec, model=model, training=training, fidelity=DECOUPLED)


def _row(jobs: list[Job], folder: Path) -> dict:
    graph, cluster = load_graph(jobs[0].graph), this_machine(NUM_WORKERS, quick=True, folder=OUT)
    runs: dict[str, list[dict]] = {form: [] for form in _FORMS}
    for job in jobs:
        for form, index in _FORMS.items():
            runs[form].append(_run(graph, job.forms[index].model_copy(update={"fidelity": "exact"}), cluster, folder))
    taken = api.plan(on_all(jobs[0], cluster), cluster, folder / jobs[0].name / "both.json", graph=graph).job
    accuracy = {form: [run["accuracy_pct"] for run in runs[form]] for form in _FORMS}
    epoch_s = {form: float(np.median([run["epoch_s"] for run in runs[form]])) for form in _FORMS}
    speedups = [
        one["epoch_s"] / other["epoch_s"] for one, other in zip(runs["coupled"], runs["decoupled"], strict=True)
    ]
    return {
        "graph": graph.name,
        "model": jobs[0].model.kind,
        "seeds": len(jobs),
        **{f"{form}_accuracy_pct": float(np.mean(accuracy[form])) for form in _FORMS},
        **{f"{form}_accuracy_spread_pct": max(accuracy[form]) - min(accuracy[form]) for form in _FORMS},
        **{f"{form}_epoch_s": epoch_s[form] for form in _FORMS},
        **{f"{form}_predicted_s": runs[form][0]["predicted_s"] for form in _FORMS},
        "epoch_speedup": float(np.median(speedups)),
        "epoch_speedups": speedups,
        "taken": "decoupled" if taken.is_decoupled else "coupled",
        "faster": min(epoch_s, key=lambda form: epoch_s[form]),
    }


def _run(graph: Graph, job: Job, cluster: Cluster, folder: Path) -> dict:
    at = folder / job.name / job.model.kind
    plan = api.plan(on_all(job, cluster), cluster, at / "plan.json", graph=graph)
    trace = api.run(at / "plan.json", at, graph=graph)
    return {
        "accuracy_pct": 100 * trace.accuracy["test"],
        "epoch_s": trace.median_epoch_s,
        "predicted_s": plan.prediction.expected_epoch_s,
    }


def _show(rows: list[dict]) -> None:
    table = Table(title=f"coupled models and their decoupled forms, {NUM_LAYERS} layers, {NUM_WORKERS} workers")
    for column in ("graph", "model", "coupled", "decoupled", "epoch, coupled", "decoupled", "speed-up", "taken"):
        table.add_column(column, justify="left" if column in ("graph", "model", "taken") else "right")
    for row in rows:
        table.add_row(
            row["graph"],
            row["model"],
            f"{row['coupled_accuracy_pct']:.2f}%",
            f"{row['decoupled_accuracy_pct']:.2f}%",
            f"{row['coupled_epoch_s'] * 1e3:.1f} ms",
            f"{row['decoupled_epoch_s'] * 1e3:.1f} ms",
            f"{row['epoch_speedup']:.2f}x",
            row["taken"],
        )
    Console().print(table)
