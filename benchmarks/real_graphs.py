"""Tuned baselines on real graphs, 2 workers against one PyG process on the same cores: accuracy, time, prediction.

Eight settings of Luo et al. (NeurIPS 2024), each a module of one's own: `_tuned_modules`. Most of the sources have no
standard split, so 60/20/20 of the labelled vertices are drawn with seed 0; the three seeds are those of the initial
weights and of dropout. Of the published 1,000 epochs and more 200 are trained. PyG runs the fastest of its users' ways,
which are timed first: `edge_index` or `torch.sparse`, features dense or sparse.

Trainings are kept under `out/benchmarks/real_graphs/`, so an interrupted benchmark goes on. Time is taken apart from
accuracy, both sides in one run with nothing beside it: set-up, then the median of some epochs; a total is set-up plus
200 times that median. Where hosts can be emulated here, the same settings are predicted and run on three uneven ones.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from benchmarks._common import OUT, ROOT, dataset, median_and_spread, this_machine
from benchmarks._emulated import inside, why_not_emulated
from benchmarks._prediction_table import predict_and_run
from benchmarks._pyg_modules import PygTraining, fastest_way
from benchmarks._tuned_modules import BASELINES, Baseline
from gnnplan.planner import api
from gnnplan.planner.cluster import CLUSTER_FILE, Cluster
from gnnplan.planner.graph import Graph
from gnnplan.planner.job import Job, NpzGraph
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.plan import Plan
from gnnplan.planner.trace import Trace
from gnnplan.profiles.contract import replacing
from gnnplan.profiles.profiler import num_usable_cores

NUM_WORKERS, NUM_EPOCHS = 2, 200
_TIMED_EPOCHS = 12
_EMULATED = ROOT / "examples" / "emulated.toml"


def main(quick: bool) -> dict:
    """Trains every setting with each seed on both sides, times them, and predicts them on emulated hosts."""
    folder = OUT / f"real_graphs{'_quick' if quick else ''}"
    folder.mkdir(parents=True, exist_ok=True)
    baselines, seeds, epochs = (BASELINES[-1:], 1, 12) if quick else (BASELINES, 3, NUM_EPOCHS)
    runs, times = [], []
    for seed in range(seeds):
        for graph, job in _jobs(baselines, seed, epochs):
            runs.append(_kept(folder / f"{job.name}.json", _accuracy, graph, job))
            print(json.dumps(runs[-1]), flush=True)
    for graph, job in _jobs(baselines, seed=0, epochs=_TIMED_EPOCHS):
        times.append(_kept(folder / f"{job.name}.time.json", _time, graph, job))
        print(json.dumps(times[-1]), flush=True)
    rows = [_row(runs, time) for time in times]
    _show(rows)
    skipped = "the quick form emulates no hosts" if quick else why_not_emulated()
    predicted = None if skipped else _predicted(baselines, folder)
    return {
        "split": "random 60/20/20 of the labelled vertices, seed 0",
        "worst_accuracy_gap_pct": max(row["accuracy_gap_pct"] for row in rows),
        "worst_single_seed_gap_pct": max(abs(run["ours_accuracy_pct"] - run["pyg_accuracy_pct"]) for run in runs),
        "mean_epoch_speedup": _geometric_mean([row["epoch_speedup"] for row in rows]),
        "mean_total_speedup": _geometric_mean([row["total_speedup"] for row in rows]),
        "worst_epoch_speedup": min(row["epoch_speedup"] for row in rows),
        "prediction_mape": predicted and predicted["mape"],
        "skipped": skipped,
        "rows": rows,
        "predicted": predicted,
    }


def _geometric_mean(values: Sequence[float]) -> float:
    return float(np.exp(np.log(values).mean()))


def _spec(baseline: Baseline) -> NpzGraph:
    return NpzGraph(source="npz", path=dataset(baseline.graph), split="random", split_seed=0)


def _jobs(baselines: Sequence[Baseline], seed: int, epochs: int) -> Iterator[tuple[Graph, Job]]:
    for baseline in baselines:
        spec = _spec(baseline)
        yield load_graph(spec), baseline.job(spec, epochs, seed)


def _kept(path: Path, make: Callable[[Graph, Job, Path], dict], graph: Graph, job: Job) -> dict:
    """The figures of an earlier, interrupted benchmark where they are there."""
    if not path.exists():
        row = make(graph, job, path.parent / job.name)
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(row))
    return json.loads(path.read_text())


def _facts(graph: Graph, job: Job) -> dict:
    return {"graph": graph.name, "model": job.model.build_function, "seed": job.training.seed}


def _accuracy(graph: Graph, job: Job, folder: Path) -> dict:
    trace, _ = _ours(graph, job, folder)
    torch.set_num_threads(num_usable_cores())
    training = PygTraining(graph, job, fastest_way(graph, job)[0])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(job.training.seed)
        for _ in range(job.training.epochs):
            loss = training.epoch()
    return {
        **_facts(graph, job),
        "ours_accuracy_pct": 100 * trace.accuracy["test"],
        "pyg_accuracy_pct": 100 * training.test_accuracy(),
        "ours_loss": trace.losses[-1],
        "pyg_loss": loss,
    }


def _time(graph: Graph, job: Job, folder: Path) -> dict:
    this_machine(NUM_WORKERS, quick=True, folder=OUT)  # profiled once, and not part of any total
    torch.set_num_threads(num_usable_cores())
    way, by_way = fastest_way(graph, job)
    start_s = time.perf_counter()
    training = PygTraining(graph, job, way)
    pyg_setup_s = time.perf_counter() - start_s
    samples = training.epoch_s(job.training.epochs)
    start_s = time.perf_counter()
    trace, plan = _ours(graph, job, folder)
    ours_setup_s = time.perf_counter() - start_s - sum(trace.epoch_s)
    pyg_s, pyg_spread_s = median_and_spread(samples)
    return {
        **_facts(graph, job),
        "workers": plan.num_workers,
        "pyg_way": way,
        "pyg_ways_s": by_way,
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
    plan = api.plan(job, cluster, folder / "plan.json", graph=graph)
    return api.run(folder / "plan.json", folder, graph=graph), plan


def _predicted(baselines: Sequence[Baseline], folder: Path) -> dict:
    """All settings on three uneven hosts, by profiles that are taken now."""
    jobs = {each.build: each.job(_spec(each), epochs=30, seed=0) for each in baselines}
    with inside(Cluster.load(_EMULATED)):
        api.profile_cluster(Cluster.load(_EMULATED), folder / "profile", quick=True)
        cluster = Cluster.load(folder / "profile" / CLUSTER_FILE)
        return predict_and_run(jobs, cluster, folder / "emulated", "tuned baselines on three emulated hosts")


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
    for column in ("setting", "gnnplan", "PyG", "gap", "gnnplan, 200 epochs", "PyG", "speed-up"):
        table.add_column(column, justify="left" if column == "setting" else "right")
    for row in rows:
        table.add_row(
            row["model"],
            f"{row['ours_accuracy_pct']:.2f}%",
            f"{row['pyg_accuracy_pct']:.2f}%",
            f"{row['accuracy_gap_pct']:.2f}",
            f"{row['ours_total_s']:.0f} s",
            f"{row['pyg_total_s']:.0f} s",
            f"{row['total_speedup']:.1f}x (an epoch {row['epoch_speedup']:.1f}x)",
        )
    Console().print(table)
