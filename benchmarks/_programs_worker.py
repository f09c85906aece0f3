"""One worker of the `programs` benchmark: trains every composition beside its peers, rank 0 also the references."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from benchmarks._exactness_worker import (
    KINDS,
    NUM_STEPS,
    TIMEOUT_S,
    Case,
    differences,
    hard_graph,
    job_of,
    without_training_in_last_part,
)
from benchmarks._programs_cases import Composed, compositions, cycle_of, train, train_sequentially
from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.partition import partition
from gnnplan.profiles.launch import reporting_errors


def run_composed(model: str, composed: Composed, rank: int, size: int) -> dict | None:
    """Trains a composition of techniques as a program; at rank 0 also its reference, and the differences."""
    graph = hard_graph(multilabel=False)
    part = partition(graph.num_nodes, graph.edge_index, size, "metis")
    graph = without_training_in_last_part(graph, part, size)
    # SGD, whose steps do not hide a gradient's scale; and dropout between layers.
    job = job_of(Case(model, "ranges", composed.op_order, False, dropout=0.5))
    matrix = aggregation_matrix(graph.num_nodes, graph.edge_index, model)

    def cycle_without(name: str | None):
        techniques = tuple(each for each in composed.techniques if each != name)
        return cycle_of(replace(composed, techniques=techniques), job, graph, matrix, part, size)

    cycle = cycle_without(None)
    found = train(cycle, job, graph, rank, size, NUM_STEPS)
    if rank != 0:
        return None
    if composed.is_exact:
        compared = differences(graph, job, found.logits, found.losses[-1])
    else:
        right = train_sequentially(cycle, job, graph, NUM_STEPS)
        compared = {
            "logits_rel_l2": float((found.logits - right.logits).norm() / right.logits.norm()),
            "loss_rel": abs(found.losses[-1] - right.losses[-1]) / abs(right.losses[-1]),
        }
    return {
        "model": model,
        "techniques": composed.techniques,
        "op_order": composed.op_order,
        "num_workers": size,
        "acts": all(acts_on(cycle, cycle_without(name)) for name in composed.techniques),
        **compared,
    }


def acts_on(cycle, without) -> bool:
    """Whether a technique changed the programs, or what their operators read."""
    if cycle.programs != without.programs or cycle.values != without.values:
        return True
    return any(cycle.blocks[name].num_edges != block.num_edges for name, block in without.blocks.items())


def main() -> None:
    """Runs all compositions and writes `rows.json` at rank 0."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    with reporting_errors(arguments.folder, rank):
        torch.set_num_threads(1)
        dist.init_process_group("gloo", timeout=timedelta(seconds=TIMEOUT_S))
        models = ("sage", "gat") if arguments.quick else KINDS
        chosen = [(model, each) for model in models for each in compositions(model, arguments.quick)]
        rows = [run_composed(model, each, rank, size) for model, each in chosen]
        if rank == 0:
            (arguments.folder / "rows.json").write_text(json.dumps(rows))
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
