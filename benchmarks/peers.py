"""One worker with all cores against PyG's and torch's own paths: epoch time in one run, same losses."""

from __future__ import annotations

import time

import torch
from rich.console import Console
from rich.table import Table

from benchmarks._common import OUT, median_and_spread, this_machine
from benchmarks._pyg_paths import Peer, pyg_cached, pyg_csr, pyg_edge_index, torch_csr
from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.graph_spec import SbmGraph
from gnnplan.planner.job import Job
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.models.first_weights import first_weights
from gnnplan.planner.program_shard import cut_program_shard
from gnnplan.planner.run import cycle_of
from gnnplan.planner.search import make_plan
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.profiles.profiler import num_usable_cores
from gnnplan.runtime.program_trainer import ProgramTrainer

PYG = {"PyG GCNConv(cached), edge_index": pyg_cached, "PyG EdgeIndex": pyg_edge_index, "PyG torch.sparse CSR": pyg_csr}
HAND = {
    "torch CSR by hand, (AX)W": torch_csr("aggregate_first"),
    "torch CSR by hand, A(XW)": torch_csr("multiply_first"),
    "torch CSR by hand, AX once": torch_csr("ax_once"),
}
OURS = "gnnplan"


def main(quick: bool) -> dict:
    """Trains all sides in turn, epoch by epoch, so that a slow spell of the machine hits all alike."""
    num_nodes, rounds = (3_000, 4) if quick else (30_000, 12)
    spec = SbmGraph(source="sbm", num_nodes=num_nodes, average_degree=200 / 3, num_classes=41, num_features=602)
    model = ModelSpec(kind="gcn", num_layers=2, hidden_channels=256)
    job = Job(schema_version=1, graph=spec, model=model, training=TrainingSpec(epochs=rounds))
    graph = generate_sbm(spec)
    torch.set_num_threads(num_usable_cores())
    plan, partition = make_plan(job, this_machine(1, quick=True, folder=OUT), graph)
    shard = cut_program_shard(cycle_of(plan, graph, partition), graph, 0)
    ours = ProgramTrainer(
        plan, shard, 0, torch.device("cpu"), first_weights(job, graph.num_features, graph.num_classes)
    )
    peers = {name: Peer(graph, job, make) for name, make in (PYG | HAND).items()}
    sides = {OURS: lambda epoch: ours.train_epoch(epoch, traced=False).loss}
    sides |= {name: lambda _, peer=peer: peer.epoch() for name, peer in peers.items()}
    times: dict[str, list[float]] = {name: [] for name in sides}
    losses: dict[str, list[float]] = {name: [] for name in sides}
    for epoch in range(rounds):
        for name, step in sides.items():
            start_s = time.perf_counter()
            losses[name].append(step(epoch))
            times[name].append(time.perf_counter() - start_s)
    rows = _rows(times, losses)
    _show(rows)
    median = {row["path"]: row["median_s"] for row in rows}
    return {
        "graph": f"{graph.num_nodes} vertices, {graph.num_edges} edges, 602 -> 256 -> 41",
        "speedup_over_best_pyg": min(median[name] for name in PYG) / median[OURS],
        "speedup_over_torch_csr": median["torch CSR by hand, A(XW)"] / median[OURS],
        "speedup_over_torch_csr_ax_once": median["torch CSR by hand, AX once"] / median[OURS],
        "max_loss_rel_difference": max(row["loss_rel_difference"] for row in rows),
        "rows": rows,
    }


def _rows(times: dict[str, list[float]], losses: dict[str, list[float]]) -> list[dict]:
    rows = []
    for name, samples in times.items():
        median_s, spread_s = median_and_spread(samples[2:])
        differences = (abs(a - b) / b for a, b in zip(losses[name], losses[OURS]))
        rows.append({"path": name, "median_s": median_s, "spread_s": spread_s, "loss_rel_difference": max(differences)})
    return rows


def _show(rows: list[dict]) -> None:
    ours = next(row["median_s"] for row in rows if row["path"] == OURS)
    table = Table(title="one epoch, all cores")
    for column in ("path", "median", "spread", "over gnnplan", "largest loss difference"):
        table.add_column(column, justify="left" if column == "path" else "right")
    for row in sorted(rows, key=lambda row: row["median_s"]):
        table.add_row(
            row["path"],
            f"{row['median_s'] * 1e3:.0f} ms",
            f"{row['spread_s'] / row['median_s']:.0%}",
            f"{row['median_s'] / ours:.2f}x",
            f"{row['loss_rel_difference']:.1e}",
        )
    Console().print(table)
