"""One worker of the `exactness` benchmark: trains every case beside its peers, and the references of some of them."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import timedelta
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from benchmarks._exactness_cases import SETS, Case, cycle_of, hard_graph, needed, without_training_in_last_part
from benchmarks._exactness_training import Trained, train, train_alone, train_sequentially
from gnnplan.planner.graph import Graph
from gnnplan.planner.partitioning.partition import partition
from gnnplan.planner.program.cycle import Cycle
from gnnplan.profiles.launch import emit, reporting_errors

TIMEOUT_S = 120.0
_BATCH = 8  # cases a worker whose references it has in one go, while the others have theirs
_PLAIN = asdict(Case(""))  # of a row only what is not so is kept


def run_cases(cases: Sequence[Case], rank: int, size: int, on_done: Callable[[int], None]) -> list[list[Any]]:
    """Trains cases with all workers; gives the rows of those that this one has the references of, and their places.

    Args:
        on_done: called with how many cases are trained and compared, by this worker.
    """
    rows = []
    for start in range(0, len(cases), _BATCH * size):
        batch = cases[start : start + _BATCH * size]
        found = [_trained(case, rank, size) for case in batch]
        rows += [[start + k, _row(batch[k], found[k], size)] for k in range(rank, len(batch), size)]
        on_done(start + len(batch))
    return rows


def _trained(case: Case, rank: int, size: int) -> Trained:
    return train(composed(case, size), case.job, _graph(case, size), rank, size)


def _graph(case: Case, size: int) -> Graph:
    return parted(case.multilabel, case.partitioner, size)[0]


def _row(case: Case, found: Trained, size: int) -> dict:
    """The case, its differences from its reference, and which techniques changed the program."""
    cycle = composed(case, size)
    exact = case.is_exact
    right = alone(without_techniques(case), size) if exact else train_sequentially(cycle, case.job, _graph(case, size))
    return {
        **{name: value for name, value in asdict(case).items() if name == "model" or value != _PLAIN[name]},
        "num_workers": size,
        "chosen": sorted(case.chosen),
        "acting": sorted(
            name
            for name in case.chosen
            if (sends_rows(cycle) if name == case.layout else acts_on(cycle, composed(without(name, case), size)))
        ),
        "logits_rel_l2": float((found.logits - right.logits).norm() / right.logits.norm()),
        "loss_rel": abs(found.losses[-1] - right.losses[-1]) / abs(right.losses[-1]),
    }


def without(name: str, case: Case) -> Case:
    """The case but for one of its techniques, and those that need it, or for its order of operators."""
    if name == "operator_order":
        return replace(case, op_order="multiply_first")
    others = (each for each in case.techniques if each != name and name not in needed([each]))
    return replace(case, techniques=tuple(others))


# Those of a batch are read twice; pairs follow each other, and of each pair both single ones are composed too.
@lru_cache(maxsize=128)
def composed(case: Case, size: int) -> Cycle:
    """The programs of a case."""
    graph, part = parted(case.multilabel, case.partitioner, size)
    return cycle_of(case, graph, part, size)


@cache
def parted(multilabel: bool, partitioner: str, size: int) -> tuple[Graph, np.ndarray]:
    """The graph, and the worker of each vertex."""
    graph = hard_graph(multilabel)
    part = partition(graph.num_nodes, graph.edge_index, size, partitioner)
    return without_training_in_last_part(graph, part, size), part


def without_techniques(case: Case) -> Case:
    """What of a case one PyG process sees: the same for many cases."""
    names = ("op_order", "layout", "share", "num_groups", "num_chunks", "waits_late")
    return replace(case, techniques=(), **{name: _PLAIN[name] for name in names})


@cache
def alone(case: Case, size: int) -> Trained:
    """The reference of all exact cases that differ in techniques only."""
    assert case == without_techniques(case)
    graph, _ = parted(case.multilabel, case.partitioner, size)
    return train_alone(graph, case.job)


def acts_on(cycle, without) -> bool:
    """Whether a technique changed the programs, or what their operators read."""
    if cycle.programs != without.programs or cycle.values != without.values:
        return True
    return any(cycle.blocks[name].num_edges != block.num_edges for name, block in without.blocks.items())


def sends_rows(cycle) -> bool:
    """Whether a layout had anything to do: workers send each other rows or columns while they train."""
    return any(op.kind in ("exchange", "transpose") for op in cycle.operators_of_epochs())


def main() -> None:
    """Runs all cases; every worker writes its `rows_RANK.json`, and the first one says how far they are."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--cases", choices=SETS, default="all")
    arguments = parser.parse_args()
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    with reporting_errors(arguments.folder, rank):
        torch.set_num_threads(1)
        dist.init_process_group("gloo", timeout=timedelta(seconds=TIMEOUT_S))
        chosen = [case for case in SETS[arguments.cases](arguments.quick) if size % case.num_groups == 0]

        def say(num_done: int) -> None:
            if rank == 0:
                emit({"num_done": num_done, "num_cases": len(chosen)})

        rows = run_cases(chosen, rank, size, say)
        (arguments.folder / f"rows_{rank}.json").write_text(json.dumps(rows))
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
