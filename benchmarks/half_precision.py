"""Rows in bfloat16 beside the best exact plan, 2 workers: seconds of an epoch, memory, prediction, and accuracy.

Both sides have one job and are planned by the search; the one in halves may take no other approximation. They run in
turn, three times each, so that a slow spell of the machine hits both. Accuracy is that of real graphs with a random
split of 60/20/20 and three seeds of the first weights. Every setting is kept as it ends, so an interrupted benchmark
goes on; `missing` names what is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks._common import OUT, dataset, fingerprint_of, on_all, this_machine
from benchmarks._results import Parts
from gnnplan.planner import api
from gnnplan.planner.graph import Graph
from gnnplan.planner.graph_spec import NpzGraph, RmatGraph
from gnnplan.planner.job import Job
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.model_spec import ModelKind, ModelSpec
from gnnplan.planner.readers.liveness import training_bytes
from gnnplan.planner.techniques.registry import ours
from gnnplan.planner.training_spec import TrainingSpec

GRAPHS = ("amazon_photo", "coauthor_cs", "fb100_cornell5")
KINDS: tuple[ModelKind, ...] = ("gcn", "sage")
NUM_WORKERS, NUM_ROUNDS, NUM_SEEDS, NUM_EPOCHS = 2, 3, 3, 200
_TIMED_EPOCHS = 12
_NAME, _FIDELITY = "half_precision", "approximate"
SIDES = ("exact", "halves")
_LARGE = RmatGraph(source="rmat", num_nodes=100_000, num_edges=2_000_000, num_features=128)
_TIMED: tuple[tuple[ModelKind, int, int], ...] = (("gcn", 64, 3), ("gcn", 256, 3), ("sage", 128, 3), ("gat", 64, 2))


def main(quick: bool) -> dict:
    """Times every setting and trains every real graph; quick: one small setting, one graph and seed, few epochs."""
    folder = OUT / f"half_precision{'_quick' if quick else ''}"
    timed = _TIMED[:1] if quick else _TIMED
    large = _LARGE.model_copy(update={"num_nodes": 4000, "num_edges": 40_000}) if quick else _LARGE
    graph = load_graph(large)
    jobs = {"rows": [_job(large, kind, width, layers) for kind, width, layers in timed]}
    jobs["trained"] = list(_accuracy_jobs(quick))
    settings = {kind: {job.name: _settings(job) for job in each} for kind, each in jobs.items()}
    parts = Parts(_NAME, settings, _figures, is_kept=not quick)
    for kind, make in (("rows", partial(_timed, graph)), ("trained", _trained)):
        for job in jobs[kind]:
            parts.add(kind, job.name, partial(make, job, folder / job.name))
    record = parts.record()
    _show(record["rows"])
    return record


def _settings(job: Job) -> str:
    """Of the job, wherever its graph's file lies."""
    of_graph = {**job.graph.model_dump(mode="json"), "path": getattr(job.graph, "path", Path()).name}
    return fingerprint_of([of_graph, job.model, job.training])


def _figures(parts: Mapping[str, Mapping[str, dict]]) -> dict:
    """Over settings and trainings that have ended; none before there are both."""
    rows, gaps = list(parts["rows"].values()), _gaps(parts["trained"].values())
    if not rows or not gaps:
        return {"workers": NUM_WORKERS}
    return {
        "workers": NUM_WORKERS,
        "mean_epoch_speedup": float(np.exp(np.mean([np.log(row["epoch_speedup"]) for row in rows]))),
        "worst_epoch_speedup": min(row["epoch_speedup"] for row in rows),
        "mean_rows_memory_ratio": float(np.mean([row["rows_memory_ratio"] for row in rows])),
        "prediction_mape": float(np.mean([abs(row["errors"]["halves"]) for row in rows])),
        "worst_memory_error": max((row["memory_errors"][side] for row in rows for side in SIDES), key=abs),
        "worst_accuracy_gap_pct": max(map(abs, gaps.values())),
        "accuracy_gaps_pct": gaps,
    }


def _job(spec: Any, kind: ModelKind, width: int, layers: int, seed: int = 0, epochs: int = _TIMED_EPOCHS) -> Job:
    model = ModelSpec(kind=kind, num_layers=layers, hidden_channels=width, heads=4)
    training = TrainingSpec(epochs=epochs, learning_rate=0.01, seed=seed)
    name = f"{kind}-{width}" if isinstance(spec, RmatGraph) else f"{Path(spec.path).stem}-{kind}-{seed}"
    return Job(name=name, graph=spec, model=model, training=training)


def _accuracy_jobs(quick: bool) -> Iterator[Job]:
    for name in GRAPHS[:1] if quick else GRAPHS:
        spec = NpzGraph(source="npz", path=dataset(name), split="random", split_seed=0)
        for kind in KINDS[:1] if quick else KINDS:
            for seed in range(1 if quick else NUM_SEEDS):
                yield _job(spec, kind, 64, 3, seed, 20 if quick else NUM_EPOCHS)


def _sided(job: Job, side: str) -> Job:
    """The job that one side is planned for."""
    if side == "exact":
        return job
    others = [name for name, each in ours().items() if each.costs == _FIDELITY and name != _NAME]
    pin = job.pin.model_copy(update={"techniques": {_NAME: True, **dict.fromkeys(others, False)}})
    return job.model_copy(update={"pin": pin, "fidelity": _FIDELITY})


def _planned(graph: Graph, job: Job, side: str, folder: Path) -> tuple[Path, Any]:
    cluster = this_machine(NUM_WORKERS, quick=True, folder=OUT)
    path = folder / side / "plan.json"
    return path, api.plan(on_all(_sided(job, side), cluster), cluster, path, graph=graph)


def _timed(graph: Graph, job: Job, folder: Path) -> dict:
    plans = {side: _planned(graph, job, side, folder) for side in SIDES}
    runs: dict[str, list] = {side: [] for side in SIDES}
    for _ in range(NUM_ROUNDS):
        for side, (path, _plan) in plans.items():
            runs[side].append(api.run(path, path.parent, graph=graph))
    comparisons = {side: api.compare(api.simulate(plan), runs[side][-1]) for side, (_, plan) in plans.items()}
    epoch_s = {side: [trace.median_epoch_s for trace in runs[side]] for side in SIDES}
    speedups = [one / other for one, other in zip(*epoch_s.values(), strict=True)]
    memory = {side: comparisons[side].figure("peak memory, worker 0") for side in SIDES}
    of_rows = {side: training_bytes(plan.cycle.cycle(), 0).held_bytes for side, (_, plan) in plans.items()}
    return {
        "setting": job.name,
        "epoch_s": {side: float(np.median(each)) for side, each in epoch_s.items()},
        "epoch_speedup": float(np.median(speedups)),
        "epoch_speedups": speedups,
        "errors": {s: plans[s][1].prediction.expected_epoch_s / float(np.median(epoch_s[s])) - 1 for s in SIDES},
        "memory_bytes": {side: memory[side].measured for side in SIDES},
        "memory_errors": {side: memory[side].error for side in SIDES},
        "rows_memory_ratio": of_rows["halves"] / of_rows["exact"],
        "losses": {side: runs[side][-1].losses[-1] for side in SIDES},
    }


def _trained(job: Job, folder: Path) -> dict:
    graph, found = load_graph(job.graph), {}
    for side in SIDES:
        path, _ = _planned(graph, job, side, folder)
        trace = api.run(path, path.parent, graph=graph)
        found[side] = {"accuracy_pct": 100 * trace.accuracy["test"], "epoch_s": trace.median_epoch_s}
    return {"graph": graph.name, "model": job.model.kind, "seed": job.training.seed, **found}


def _gaps(trained: Iterable[dict]) -> dict[str, float]:
    """By graph and model, accuracy in halves less the exact one, in the mean of the seeds."""
    found: dict[str, list[float]] = {}
    for row in trained:
        gap = row["halves"]["accuracy_pct"] - row["exact"]["accuracy_pct"]
        found.setdefault(f"{row['model']} on {row['graph']}", []).append(gap)
    return {name: float(np.mean(gaps)) for name, gaps in found.items()}


def _show(rows: list[dict]) -> None:
    table = Table(title=f"rows in bfloat16 beside the best exact plan, {NUM_WORKERS} workers")
    for column in ("setting", "exact", "halves", "speed-up", "predicted off", "memory of rows", "memory off"):
        table.add_column(column, justify="left" if column == "setting" else "right")
    for row in rows:
        table.add_row(
            row["setting"],
            f"{row['epoch_s']['exact'] * 1e3:.0f} ms",
            f"{row['epoch_s']['halves'] * 1e3:.0f} ms",
            f"{row['epoch_speedup']:.2f}x",
            f"{row['errors']['halves']:+.1%}",
            f"{row['rows_memory_ratio']:.2f}",
            f"{row['memory_errors']['halves']:+.1%}",
        )
    Console().print(table)
