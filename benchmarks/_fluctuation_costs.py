"""What adjusting costs: preprocessing before the first epoch, and deciding between epochs."""

from __future__ import annotations

import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import scipy.sparse as sp

from benchmarks._emulated import loaded
from benchmarks._fluctuation_runs import Case
from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.cluster import Cluster
from gnnplan.planner.graph import Graph
from gnnplan.planner.halo import Halo, build_halo
from gnnplan.planner.hybrid.adjust import Adjuster
from gnnplan.planner.hybrid.buffers import most_buffers
from gnnplan.planner.hybrid.dependencies import find_dependencies
from gnnplan.planner.hybrid.levels import levels_of
from gnnplan.planner.hybrid.neighbourhood import build_neighbourhood
from gnnplan.planner.hybrid.sizes import most_levels
from gnnplan.planner.hybrid.staging import Staged, write_staged
from gnnplan.planner.partial.contributing import contributing_with_halo
from gnnplan.planner.plan import Partition, Plan, load_partition
from gnnplan.planner.trace import Trace
from gnnplan.profiles.contract import replacing
from gnnplan.profiles.kernels import pool

_NUM_EPOCHS = 100


def preprocessing_share(case: Case, cluster: Cluster, epoch_s: float) -> float:
    """Processor seconds of all workers' preprocessing over those that the hosts have in 100 epochs.

    Multi-hop neighbourhoods, what each dependency costs and saves, sorting them by owner (NeutronCloud, algorithm 2),
    counting the training vertices that each layer contributes to, cutting, writing and reading what is staged, and
    taking memory for the epochs of any split. Not in it is the planner's search, for which plans are simulated. All is
    done twice, and not counted when it compiles.

    Args:
        case: that adjusts online, in calm; epoch_s: it takes.
    """
    kept = case.at / "preprocessing_and_staging.json"
    if not kept.exists():
        plan, graph = case.plan, loaded(case.plan.job.graph)
        matrix = aggregation_matrix(graph.num_nodes, graph.edge_index, plan.job.model.kind)
        partition = load_partition(plan, case.plan_path)
        halo = build_halo(matrix, partition.part, plan.num_workers)  # which plain halo exchange needs as well
        _preprocess(plan, graph, matrix, halo, partition)
        begin_s = time.process_time()
        _preprocess(plan, graph, matrix, halo, partition)
        with replacing(kept) as temporary:
            temporary.write_text(json.dumps({"cpu_s": time.process_time() - begin_s}) + "\n")
    cores = sum(host.cpu_cores or 1.0 for host in cluster.hosts)
    return json.loads(kept.read_text())["cpu_s"] / (cores * _NUM_EPOCHS * epoch_s)


def _preprocess(plan: Plan, graph: Graph, matrix: sp.csr_matrix, halo: Halo, partition: Partition) -> None:
    """Of all workers, one after another."""
    levels = levels_of(plan.job.model, plan.layered.layers, plan.graph.num_features, plan.graph.num_classes)
    for block, worker in zip(halo.blocks, plan.layered.dependencies.workers, strict=True):
        dependencies = find_dependencies(build_neighbourhood(matrix, block, levels.num_hops), levels)
        Adjuster(dependencies, float(dependencies.alone.num_bytes.sum()), worker.rates)
    contributing_with_halo(halo, graph.train_mask, plan.job.model)
    with TemporaryDirectory(prefix="gnnplan-staged-") as folder:
        write_staged(plan, graph, matrix, halo, partition, Path(folder))
        for rank, block in enumerate(halo.blocks):
            staged = Staged.load(Path(folder) / f"staged_{rank}.npz")
            splits = [staged.split(cached) for cached in (staged.may_cache, np.zeros_like(staged.may_cache))]
            most = most_levels(block.remote, staged.rows, *splits, int(halo.send_counts()[rank].sum()))
            pool.reserve(most_buffers(plan, rank, most).pooled)
            pool.reserve({})
            pool.release()


def deciding_share(trace: Trace, lengths_s: np.ndarray) -> float:
    """Seconds in which workers chose and agreed between epochs, the slowest worker's of each, over all epochs'.

    At most: whoever asks waits for whoever is still busy with the epoch.
    """
    by_epoch: dict[int, float] = {}
    for each in trace.adjustments:
        by_epoch[each.epoch] = max(by_epoch.get(each.epoch, 0.0), each.seconds + each.agreeing_s)
    return sum(by_epoch.values()) / float(lengths_s.sum())
