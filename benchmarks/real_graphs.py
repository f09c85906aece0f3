"""Real graphs, 2 workers against one PyG process on the same cores: accuracy and total time.

The setting of CaPGNN's table 7: 3 layers, hidden 256, learning rate 0.01, 200 epochs. The sources
have no standard split, so 60/20/20 of the labelled vertices are drawn with seed 0; the three seeds
are those of the initial weights. PyG runs on its fastest path at hand, `torch.sparse` CSR.

Finished rows are kept under `out/benchmarks/real_graphs/`, so that an interrupted run goes on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from benchmarks._common import OUT, dataset, this_machine
from benchmarks._pyg_paths import Peer, pyg_csr
from planner import api
from planner.graph import Graph
from planner.job import Job, ModelSpec, NpzGraph, TrainingSpec
from planner.loaders import load_graph
from profiles.contract import replacing
from profiles.profiler import num_usable_cores

GRAPHS = ("amazon_photo", "coauthor_cs", "coauthor_physics", "fb100_cornell5")
MODELS = ("gcn", "sage")
NUM_WORKERS = 2


def main(quick: bool) -> dict:
    """Trains every graph and model with each seed on both sides, one after the other."""
    folder = OUT / f"real_graphs{'_quick' if quick else ''}"
    graphs, models, seeds, epochs = (GRAPHS[:1], MODELS[:1], 1, 20) if quick else (GRAPHS, MODELS, 3, 200)
    runs = []
    for name in graphs:
        spec = NpzGraph(source="npz", path=dataset(name), split="random", split_seed=0)
        graph = load_graph(spec)
        for kind in models:
            model = ModelSpec(kind=kind, num_layers=3, hidden_channels=256)
            for seed in range(seeds):
                training = TrainingSpec(epochs=epochs, learning_rate=0.01, seed=seed)
                job = Job(schema_version=1, name=f"{name}-{kind}-{seed}", graph=spec, model=model, training=training)
                runs.append(_kept(folder / f"{job.name}.json", graph, job))
                print(json.dumps(runs[-1]), flush=True)
    rows = list(_rows(runs))
    _show(rows)
    return {
        "split": "random 60/20/20 of the labelled vertices, seed 0",
        "worst_accuracy_gap_pct": max(row["accuracy_gap_pct"] for row in rows),
        "rows": rows,
    }


def _kept(path: Path, graph: Graph, job: Job) -> dict:
    """The run's figures, from an earlier interrupted benchmark where they are there."""
    if not path.exists():
        row = {"graph": graph.name, "model": job.model.kind, "seed": job.training.seed}
        row |= _ours(graph, job, path.parent / job.name) | _pyg(graph, job)
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(row))
    return json.loads(path.read_text())


def _ours(graph: Graph, job: Job, folder: Path) -> dict:
    plan = api.plan(job, this_machine(NUM_WORKERS, quick=True, folder=OUT), folder / "plan.json", graph=graph)
    start_s = time.perf_counter()
    trace = api.run(folder / "plan.json", folder, graph=graph)
    return {
        "ours_accuracy_pct": 100 * trace.accuracy["test"],
        "ours_total_s": time.perf_counter() - start_s,
        "ours_epoch_s": trace.median_epoch_s,
        "predicted_epoch_s": plan.prediction.epoch_s,
    }


def _pyg(graph: Graph, job: Job) -> dict:
    torch.set_num_threads(num_usable_cores())
    start_s = time.perf_counter()
    peer = Peer(graph, job, pyg_csr)
    times = []
    for _ in range(job.training.epochs):
        epoch_start_s = time.perf_counter()
        peer.epoch()
        times.append(time.perf_counter() - epoch_start_s)
    return {
        "pyg_accuracy_pct": 100 * peer.test_accuracy(),
        "pyg_total_s": time.perf_counter() - start_s,
        "pyg_epoch_s": float(np.median(times)),
    }


def _rows(runs: list[dict]) -> Iterator[dict]:
    for graph, model in dict.fromkeys((run["graph"], run["model"]) for run in runs):
        group = [run for run in runs if (run["graph"], run["model"]) == (graph, model)]
        mean = {key: float(np.mean([run[key] for run in group])) for key in group[0] if key.endswith(("_pct", "_s"))}
        yield {
            "graph": graph,
            "model": model,
            "seeds": len(group),
            **mean,
            "accuracy_gap_pct": abs(mean["ours_accuracy_pct"] - mean["pyg_accuracy_pct"]),
            "total_speedup": mean["pyg_total_s"] / mean["ours_total_s"],
            "epoch_speedup": mean["pyg_epoch_s"] / mean["ours_epoch_s"],
        }


def _show(rows: list[dict]) -> None:
    table = Table(title=f"{NUM_WORKERS} workers against one PyG process, same cores (mean of seeds)")
    for column in ("graph", "model", "gnnplan", "PyG", "gap", "gnnplan", "PyG", "speed-up"):
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
            f"{row['total_speedup']:.1f}x",
        )
    Console().print(table)
