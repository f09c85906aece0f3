"""Real graphs, 2 workers against one PyG process on the same cores: accuracy and time.

The setting of CaPGNN's table 7: 3 layers, hidden 256, learning rate 0.01, 200 epochs. The sources
have no standard split, so 60/20/20 of the labelled vertices are drawn with seed 0; the three seeds
are those of the initial weights. PyG runs on its fastest path at hand: `torch.sparse` CSR for the
adjacency, and for features that are mostly zeros.

Accuracy needs 200 epochs and three seeds, an hour on two cores, so finished trainings are kept under
`out/benchmarks/real_graphs/` and an interrupted benchmark goes on. Time is taken apart from it, both
sides in one run with nothing beside it: set-up, then the median of some epochs; a total is set-up plus
200 times that median.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from benchmarks._common import OUT, dataset, median_and_spread, on_all, this_machine
from benchmarks._pyg_paths import Peer, pyg_csr
from gnnplan.planner import api
from gnnplan.planner.graph import Graph
from gnnplan.planner.job import Job, ModelSpec, NpzGraph, TrainingSpec
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.model_spec import ModelKind
from gnnplan.planner.plan import Plan
from gnnplan.planner.trace import Trace
from gnnplan.profiles.contract import replacing
from gnnplan.profiles.profiler import num_usable_cores

GRAPHS = ("amazon_photo", "coauthor_cs", "coauthor_physics", "fb100_cornell5")
MODELS: tuple[ModelKind, ...] = ("gcn", "sage")
NUM_WORKERS, NUM_EPOCHS = 2, 200


def main(quick: bool) -> dict:
    """Trains every graph and model with each seed on both sides, then times them."""
    folder = OUT / f"real_graphs{'_quick' if quick else ''}"
    graphs, models, seeds, epochs = (GRAPHS[:1], MODELS[:1], 1, 20) if quick else (GRAPHS, MODELS, 3, 200)
    runs, times = [], []
    for seed in range(seeds):
        for graph, job in _jobs(graphs, models, seed, epochs):
            runs.append(_kept(folder / f"{job.name}.json", _accuracy, graph, job))
            print(json.dumps(runs[-1]), flush=True)
    for graph, job in _jobs(graphs, models, seed=0, epochs=min(epochs, 12)):
        times.append(_kept(folder / f"{job.name}.time.json", _time, graph, job))
        print(json.dumps(times[-1]), flush=True)
    rows = [_row(runs, time) for time in times]
    _show(rows)
    return {
        "split": "random 60/20/20 of the labelled vertices, seed 0",
        "worst_accuracy_gap_pct": max(row["accuracy_gap_pct"] for row in rows),
        "worst_single_seed_gap_pct": max(abs(run["ours_accuracy_pct"] - run["pyg_accuracy_pct"]) for run in runs),
        "rows": rows,
    }


def _jobs(
    graphs: tuple[str, ...], models: tuple[ModelKind, ...], seed: int, epochs: int
) -> Iterator[tuple[Graph, Job]]:
    for name in graphs:
        spec = NpzGraph(source="npz", path=dataset(name), split="random", split_seed=0)
        graph = load_graph(spec)
        for kind in models:
            model = ModelSpec(kind=kind, num_layers=3, hidden_channels=256)
            training = TrainingSpec(epochs=epochs, learning_rate=0.01, seed=seed)
            yield graph, Job(schema_version=1, name=f"{name}-{kind}-{seed}", graph=spec, model=model, training=training)


def _kept(path: Path, make: Callable[[Graph, Job, Path], dict], graph: Graph, job: Job) -> dict:
    """The figures of an earlier, interrupted benchmark where they are there."""
    if not path.exists():
        row = make(graph, job, path.parent / job.name)
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(row))
    return json.loads(path.read_text())


def _facts(graph: Graph, job: Job) -> dict:
    return {"graph": graph.name, "model": job.model.kind, "seed": job.training.seed}


def _accuracy(graph: Graph, job: Job, folder: Path) -> dict:
    trace, _ = _ours(graph, job, folder)
    peer = _peer(graph, job)
    for _ in range(job.training.epochs):
        loss = peer.epoch()
    return {
        **_facts(graph, job),
        "ours_accuracy_pct": 100 * trace.accuracy["test"],
        "pyg_accuracy_pct": 100 * peer.test_accuracy(),
        "ours_loss": trace.losses[-1],
        "pyg_loss": loss,
    }


def _time(graph: Graph, job: Job, folder: Path) -> dict:
    this_machine(NUM_WORKERS, quick=True, folder=OUT)  # profiled once, and not part of any total
    start_s = time.perf_counter()
    peer = _peer(graph, job)
    pyg_setup_s = time.perf_counter() - start_s
    samples = []
    for _ in range(job.training.epochs):
        start_s = time.perf_counter()
        peer.epoch()
        samples.append(time.perf_counter() - start_s)
    start_s = time.perf_counter()
    trace, plan = _ours(graph, job, folder)
    ours_setup_s = time.perf_counter() - start_s - sum(trace.epoch_s)
    pyg_s, pyg_spread_s = median_and_spread(samples[2:])
    return {
        **_facts(graph, job),
        "ours_epoch_s": trace.median_epoch_s,
        "ours_epoch_spread_s": trace.epoch_spread_s,
        "pyg_epoch_s": pyg_s,
        "pyg_epoch_spread_s": pyg_spread_s,
        "ours_total_s": ours_setup_s + NUM_EPOCHS * trace.median_epoch_s,
        "pyg_total_s": pyg_setup_s + NUM_EPOCHS * pyg_s,
        "predicted_epoch_s": plan.prediction.epoch_s,
    }


def _ours(graph: Graph, job: Job, folder: Path) -> tuple[Trace, Plan]:
    cluster = this_machine(NUM_WORKERS, quick=True, folder=OUT)
    plan = api.plan(on_all(job, cluster), cluster, folder / "plan.json", graph=graph)
    return api.run(folder / "plan.json", folder, graph=graph), plan


def _peer(graph: Graph, job: Job) -> Peer:
    torch.set_num_threads(num_usable_cores())
    return Peer(graph, job, pyg_csr)


def _row(runs: list[dict], times: dict) -> dict:
    group = [run for run in runs if (run["graph"], run["model"]) == (times["graph"], times["model"])]
    ours, pyg = (float(np.mean([run[f"{side}_accuracy_pct"] for run in group])) for side in ("ours", "pyg"))
    return {
        **times,
        "seeds": len(group),
        "ours_accuracy_pct": ours,
        "pyg_accuracy_pct": pyg,
        "accuracy_gap_pct": abs(ours - pyg),
        "epoch_speedup": times["pyg_epoch_s"] / times["ours_epoch_s"],
        "total_speedup": times["pyg_total_s"] / times["ours_total_s"],
    }


def _show(rows: list[dict]) -> None:
    table = Table(title=f"{NUM_WORKERS} workers against one PyG process, same cores (mean of seeds)")
    for column in ("graph", "model", "gnnplan", "PyG", "gap", "gnnplan, 200 epochs", "PyG", "speed-up"):
        table.add_column(column, justify="left" if column in ("graph", "model") else "right")
    for row in rows:
        table.add_row(
            row["graph"],
            row["model"],
            f"{row['ours_accuracy_pct']:.2f}%",
            f"{row['pyg_accuracy_pct']:.2f}%",
            f"{row['accuracy_gap_pct']:.2f}",
            f"{row['ours_total_s']:.0f} s",
            f"{row['pyg_total_s']:.0f} s",
            f"{row['total_speedup']:.1f}x (an epoch {row['epoch_speedup']:.1f}x)",
        )
    Console().print(table)
