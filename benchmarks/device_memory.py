"""A training in a quarter of a GPU's memory that it takes otherwise, on GPUs that are only pretended.

The tensors say that they lie on a GPU and compute on the CPU, and their bytes are counted as CUDA's allocator counts
them. So the runtime takes the ways that it takes with CUDA, and no GPU is needed. Every model is trained on a graph of
communities twice. First the GPUs have all their memory, which gives `whole_bytes`, the peak counted. Then the cluster
says that each has a quarter of it, `limit_bytes`, and the planner finds a plan that fits by itself: nothing is pinned.

`peak_bytes` is what that plan's worst worker had at its peak, and `memory_error` how far it was predicted from it.
`loss_rel` is the largest relative difference between the losses of both plans. `brief` says in short what was chosen.
`never_above_limit` says that no worker of any row had more than its limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from rich.console import Console
from rich.table import Table

from benchmarks._common import chosen
from benchmarks._exactness_cases import Case
from benchmarks._fake_plans import Planned
from benchmarks._fake_training import Seen, train_on_fakes
from benchmarks.offload import community_graph
from gnnplan.planner.cluster import Cluster, DeviceSpec, HostSpec, resolve
from gnnplan.planner.graph import Graph
from gnnplan.planner.job import Job
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.model_spec import ModelSpec
from gnnplan.planner.program_shard import cut_program_shard
from gnnplan.planner.search.decide import decide
from gnnplan.planner.search.make import plan_of
from gnnplan.planner.search.summary import summary
from gnnplan.planner.training_spec import TrainingSpec

DEVICE, SHARE = "v100", 4
_LAYERS, _HIDDEN = 3, 128


def main(quick: bool) -> dict:
    """GCN, GraphSAGE and GAT, and GAT in decoupled form, on one GPU and on two."""
    torch.set_num_threads(1)
    models, counts = (("gcn",), (1,)) if quick else (("gcn", "sage", "gat", "decoupled_gat"), (1, 2))
    with TemporaryDirectory(prefix="gnnplan-device-memory-") as name:
        spec = community_graph(Path(name) / "graph.npz", 4, 500 if quick else 10_000)
        graph = load_graph(spec)
        jobs = (
            Job(
                name=kind,
                graph=spec,
                model=ModelSpec(kind=kind, num_layers=_LAYERS, num_hops=_LAYERS, hidden_channels=_HIDDEN),
                training=TrainingSpec(epochs=4),
            )
            for kind in models
        )
        rows = [_row(job, count, graph) for job in jobs for count in counts]
    _show(rows)
    return {"vertices": graph.num_nodes, "edges": graph.num_edges, "share": SHARE, **totals(rows), "rows": rows}


def totals(rows: list[dict]) -> dict:
    """What counts of many rows."""
    return {
        "never_above_limit": all(row["peak_bytes"] <= row["limit_bytes"] for row in rows),
        "worst_memory_error": max((row["memory_error"] for row in rows), key=abs),
        "worst_loss_rel": max(row["loss_rel"] for row in rows),
    }


def _row(job: Job, count: int, graph: Graph) -> dict:
    _, seen_whole, in_whole = _trained(job, _gpus(count, None), graph)
    whole_bytes = max(seen.peak_bytes for seen in seen_whole)
    limit_bytes = whole_bytes // SHARE
    small, seen_small, brief = _trained(job, _gpus(count, limit_bytes), graph)
    said = [memory.peak_bytes - memory.before_bytes for memory in small.memory]
    return {
        "model": job.model.kind,
        "num_gpus": count,
        "num_workers": small.plan.num_workers,
        "num_chunks": (chosen(small.plan, "destination_chunks") or {"num_chunks": 1})["num_chunks"],
        "brief_of_whole": in_whole,
        "brief": brief,
        "whole_bytes": whole_bytes,
        "limit_bytes": limit_bytes,
        "peak_bytes": max(seen.peak_bytes for seen in seen_small),
        "pinned_bytes": sum(small.plan.pinned_bytes().values()),
        "memory_error": max((each / seen.peak_bytes - 1 for each, seen in zip(said, seen_small, strict=True)), key=abs),
        "loss_rel": max(_differences(seen_whole[0].losses, seen_small[0].losses)),
    }


def _differences(one: list[float], other: list[float]) -> Iterator[float]:
    """Of the first epochs: a plan with several kinds of epochs is played longer."""
    return (abs(a - b) / abs(b) for a, b in zip(one, other, strict=False))


def _trained(job: Job, cluster: Cluster, graph: Graph) -> tuple[Planned, list[Seen], str]:
    """What the planner chose, played, and in short."""
    found = decide(job, resolve(cluster), graph)
    plan, _ = plan_of(job, graph, found)
    cycle = found.best.cycle
    shards = tuple(cut_program_shard(cycle, graph, rank) for rank in range(plan.num_workers))
    planned = Planned(Case(job.model.kind), plan, shards, found.best.memory)
    return planned, train_on_fakes(planned), summary(found.best)


def _gpus(count: int, memory_bytes: int | None) -> Cluster:
    """One host's."""
    devices = (DeviceSpec(catalog=DEVICE, count=count, memory_bytes=memory_bytes),)
    return Cluster(schema_version=1, name="pretended", hosts=(HostSpec(name="h0", devices=devices),))


def _show(rows: list[dict]) -> None:
    table = Table(title=f"trained in a {SHARE}th of the memory, on GPUs that are only pretended")
    for column in ("model", "GPUs", "workers", "chunks", "whole, MB", "limit", "peak", "predicted", "loss"):
        table.add_column(column, justify="left" if column == "model" else "right", no_wrap=True)
    for row in rows:
        table.add_row(
            row["model"],
            *(str(row[name]) for name in ("num_gpus", "num_workers", "num_chunks")),
            *(f"{row[name] / 1e6:.1f}" for name in ("whole_bytes", "limit_bytes", "peak_bytes")),
            f"{row['memory_error']:+.1%}",
            f"{row['loss_rel']:.0e}",
        )
    Console(width=110).print(table)
