"""The pool of CPU buffers against torch's own allocation: epoch time and page faults, with the same losses."""

from __future__ import annotations

import resource
import time

import torch
from rich.console import Console
from rich.table import Table

from benchmarks._common import OUT, median_and_spread, this_machine
from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.model_spec import ModelKind, ModelSpec
from gnnplan.planner.models.first_weights import first_weights
from gnnplan.planner.program_shard import cut_program_shard
from gnnplan.planner.run import cycle_of
from gnnplan.planner.search import make_plan
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.kernels import pool
from gnnplan.profiles.profiler import num_usable_cores
from gnnplan.runtime.program_trainer import ProgramTrainer

KINDS: tuple[ModelKind, ...] = ("gcn", "sage", "gat")


def main(quick: bool) -> dict:
    """Trains each model both ways in turn, epoch by epoch, in one process."""
    num_nodes, rounds = (4_000, 4) if quick else (40_000, 15)
    spec = SbmGraph(source="sbm", num_nodes=num_nodes, average_degree=25, num_classes=16, num_features=200)
    torch.set_num_threads(num_usable_cores())
    rows = []
    for kind in KINDS:
        model = ModelSpec(kind=kind, num_layers=3, hidden_channels=256, heads=4)
        job = Job(schema_version=1, graph=spec, model=model, training=TrainingSpec(epochs=rounds))
        rows.append({"model": kind, **_compare(job, rounds)})
    _show(rows)
    return {"rows": rows}


def _compare(job: Job, rounds: int) -> dict:
    graph = generate_sbm(job.graph)
    plan, partition = make_plan(job, this_machine(1, quick=True, folder=OUT), graph)
    shard = cut_program_shard(cycle_of(plan, graph, partition), graph, 0)
    weights = {name: first_weights(job, graph.num_features, graph.num_classes) for name in ("pool", "torch")}
    sides = {name: ProgramTrainer(plan, shard, 0, torch.device("cpu"), each) for name, each in weights.items()}
    limit, times, faults, losses = pool.POOLED_BYTES, {"pool": [], "torch": []}, {}, {}
    try:
        for epoch in range(rounds):
            for name, trainer in sides.items():
                pool.POOLED_BYTES = limit if name == "pool" else 2**62  # nothing is ever so large
                before, start_s = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, time.perf_counter()
                losses[name] = trainer.train_epoch(epoch, traced=False).loss
                times[name].append(time.perf_counter() - start_s)
                faults[name] = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    finally:
        pool.POOLED_BYTES = limit
    medians = {name: median_and_spread(samples[2:]) for name, samples in times.items()}
    return {
        "speedup": medians["torch"][0] / medians["pool"][0],
        "pool_s": medians["pool"][0],
        "pool_spread_s": medians["pool"][1],
        "torch_s": medians["torch"][0],
        "torch_spread_s": medians["torch"][1],
        "pool_page_faults": faults["pool"],
        "torch_page_faults": faults["torch"],
        "losses_equal": losses["pool"] == losses["torch"],
    }


def _show(rows: list[dict]) -> None:
    table = Table(title="one epoch with pooled buffers and with torch's own")
    for column in ("model", "pool", "torch", "torch / pool", "page faults", "with torch", "same loss"):
        table.add_column(column, justify="left" if column == "model" else "right")
    for row in rows:
        table.add_row(
            row["model"],
            f"{row['pool_s'] * 1e3:.0f} ms",
            f"{row['torch_s'] * 1e3:.0f} ms",
            f"{row['speedup']:.2f}x",
            str(row["pool_page_faults"]),
            str(row["torch_page_faults"]),
            "yes" if row["losses_equal"] else "no",
        )
    Console().print(table)
