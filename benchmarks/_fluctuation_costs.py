"""What adjusting costs: preprocessing before the first epoch, and deciding between epochs."""

from __future__ import annotations

import json
import time

import numpy as np
import scipy.sparse as sp

from benchmarks._emulated_runs import loaded
from benchmarks._fluctuation_runs import Case
from planner.adjacency import aggregation_matrix
from planner.cluster import Cluster
from planner.halo import Halo, build_halo
from planner.hybrid.adjust import Adjuster
from planner.hybrid.dependencies import find_dependencies
from planner.hybrid.levels import levels_of
from planner.hybrid.neighbourhood import build_neighbourhood
from planner.plan import Plan, load_partition
from planner.trace import Trace
from profiles.contract import replacing

_NUM_EPOCHS = 100


def preprocessing_share(case: Case, cluster: Cluster, epoch_s: float) -> float:
    """Processor seconds of all workers' preprocessing over those that the hosts have in 100 epochs.

    Multi-hop neighbourhoods, what each dependency costs and saves, and sorting them by owner (NeutronCloud,
    algorithm 2); one worker's is done twice, and not counted when it compiles.

    Args:
        case: that adjusts online, in calm; epoch_s: it takes.
    """
    kept = case.at / "preprocessing.json"
    if not kept.exists():
        plan, graph = case.plan, loaded(case.plan.job.graph)
        matrix = aggregation_matrix(graph.num_nodes, graph.edge_index, plan.job.model.kind)
        halo = build_halo(matrix, load_partition(plan, case.plan_path).part, plan.num_workers)
        _preprocess(plan, matrix, halo, 0)
        begin_s = time.process_time()
        for rank in range(plan.num_workers):
            _preprocess(plan, matrix, halo, rank)
        with replacing(kept) as temporary:
            temporary.write_text(json.dumps({"cpu_s": time.process_time() - begin_s}) + "\n")
    cores = sum(host.cpu_cores or 1.0 for host in cluster.hosts)
    return json.loads(kept.read_text())["cpu_s"] / (cores * _NUM_EPOCHS * epoch_s)


def _preprocess(plan: Plan, matrix: sp.csr_matrix, halo: Halo, rank: int) -> None:
    levels = levels_of(plan.job.model, plan.decision.layers, plan.graph.num_features, plan.graph.num_classes)
    dependencies = find_dependencies(build_neighbourhood(matrix, halo.blocks[rank], levels.num_hops), levels)
    Adjuster(dependencies, float(dependencies.alone.num_bytes.sum()), plan.decision.dependencies.workers[rank].rates)


def deciding_share(trace: Trace, lengths_s: np.ndarray) -> float:
    """Seconds in which workers chose between epochs, the slowest worker's of each, over all epochs' seconds."""
    by_epoch: dict[int, float] = {}
    for each in trace.adjustments:
        by_epoch[each.epoch] = max(by_epoch.get(each.epoch, 0.0), each.seconds)
    return sum(by_epoch.values()) / float(lengths_s.sum())
