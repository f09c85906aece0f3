"""One worker of the `exactness` benchmark: trains every case beside its peers, rank 0 also the references."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
import torch.distributed as dist
from torch import Tensor

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.graph import Graph
from gnnplan.planner.halo import Halo, build_halo
from gnnplan.planner.hybrid.levels import Levels, levels_of, why_not
from gnnplan.planner.hybrid.staging import cut_staged
from gnnplan.planner.job import Job, ModelSpec, SbmGraph, TrainingSpec
from gnnplan.planner.partial.contributing import contributing_with_halo
from gnnplan.planner.partial.decision import PartialReduceDecision
from gnnplan.planner.partial.rule import majority
from gnnplan.planner.partition import partition
from gnnplan.planner.shard import Shard, cut_shard
from gnnplan.planner.steps import LayerDecision, build_program
from gnnplan.profiles.kernels.activation import dropout_key, keep_mask
from gnnplan.profiles.launch import reporting_errors
from gnnplan.runtime.full_batch import FullBatchTrainer
from gnnplan.runtime.hybrid.model import HybridModel
from gnnplan.runtime.model import WorkerModel
from gnnplan.runtime.partial.trainer import PartialReduceTrainer
from gnnplan.runtime.reference import INPUT_LAYER, graph_tensors, pyg_forward, train_reference

NUM_STEPS, NUM_STEPS_A_SPLIT = 20, 5
NUM_LAYERS = 3
TIMEOUT_S = 120.0
_NEVER = 1e9  # times as long as usual
KINDS = ("gcn", "sage", "gat", "gin", "tagcn")
ORDERS = (("multiply_first", False), ("aggregate_first", False), ("aggregate_first", True))


@dataclass(frozen=True)
class Case:
    """One engine path."""

    model: str
    partitioner: str
    op_order: str
    precompute: bool
    sparse_features: bool = False
    multilabel: bool = False
    dropout: float = 0.0
    input_dropout: float = 0.0
    dependencies: str = "communicate"  # of halo rows: which are made by who needs them
    max_staleness: int | None = None  # K of partial reduce; above 0 no deadline ever passes


def cases(quick: bool) -> Iterator[Case]:
    """The issue's grid, then sparse features, dropout and label sets on METIS parts."""
    for model in KINDS:
        orders = ORDERS[:1] if model == "gat" else ORDERS
        for partitioner in ("metis",) if quick else ("metis", "ranges"):
            for order, precompute in orders:
                yield Case(model, partitioner, order, precompute)
        for order, precompute in (o for o in orders if o[0] == "multiply_first" or o[1]):
            yield Case(model, "metis", order, precompute, sparse_features=True)
        yield Case(model, "metis", "multiply_first", False, multilabel=True)
        for sparse in (False, True):
            yield Case(model, "metis", "multiply_first", False, sparse, dropout=0.5, input_dropout=0.3)
        if model != "gat":
            yield Case(model, "metis", "aggregate_first", False, dropout=0.5, input_dropout=0.3)
        yield from _replicating_cases(model, orders, quick)
        yield from _partial_cases(model, orders, quick)


def _replicating_cases(model: str, orders: tuple[tuple[str, bool], ...], quick: bool) -> Iterator[Case]:
    """Everything cached, a random part of the dependencies, and another part every few epochs, with dropout too."""
    layers = {order: (LayerDecision(op_order=order),) * NUM_LAYERS for order, _ in orders}
    model_spec = ModelSpec(kind=model, num_layers=NUM_LAYERS)
    possible = [(order, once) for order, once in orders if why_not(model_spec, layers[order]) is None]
    for number, (order, precompute) in enumerate(possible):
        for dependencies in ("moving",) if quick and number else ("moving", "random", "cache"):
            yield Case(model, "metis", order, precompute, dependencies=dependencies)
        if not precompute and not (quick and number):
            dropped = {"dropout": 0.5, "input_dropout": 0.3}
            yield Case(model, "metis", order, precompute, **dropped, dependencies="moving")


def _partial_cases(model: str, orders: tuple[tuple[str, bool], ...], quick: bool) -> Iterator[Case]:
    """Over the mailbox, where nothing may be late or nothing is: all communicated, and a random part cached."""
    for order, precompute in orders[:1] if quick else orders:
        for max_staleness in (0, 3):
            yield Case(model, "metis", order, precompute, max_staleness=max_staleness)
    dropped = {"dropout": 0.5, "input_dropout": 0.3}
    yield Case(model, "metis", orders[0][0], False, **dropped, max_staleness=0)
    for case in _replicating_cases(model, orders, quick):
        if case.dependencies == "random":
            yield replace(case, max_staleness=0)


def hard_graph(multilabel: bool, num_nodes: int = 240, num_classes: int = 5) -> Graph:
    """Directed, with self loops, repeated edges and isolated vertices, skewed, mostly zero features."""
    rng = np.random.default_rng(7)
    connected = num_nodes - 12
    source = (connected * rng.random(1800) ** 2).astype(np.int32)
    target = rng.integers(0, connected, 1800).astype(np.int32)
    loops = rng.integers(0, connected, 40).astype(np.int32)
    edges = np.stack([np.concatenate([source, loops, source[:60]]), np.concatenate([target, loops, target[:60]])])
    x = rng.standard_normal((num_nodes, 24)).astype(np.float32)
    x[rng.random(x.shape) < 0.75] = 0
    y = rng.integers(0, num_classes, num_nodes)
    labels = (rng.random((num_nodes, num_classes)) < 0.3).astype(np.float32) if multilabel else y
    train = rng.random(num_nodes) < 0.5
    return Graph(num_nodes, edges, x, labels, train, ~train, ~train, num_classes, "hard").validate()


def without_training_in_last_part(graph: Graph, part: np.ndarray, num_workers: int) -> Graph:
    """Leaves one worker without a training vertex, which must change nothing."""
    if num_workers == 1:
        return graph
    return replace(graph, train_mask=graph.train_mask & (part != num_workers - 1))


def run_case(case: Case, rank: int, num_workers: int) -> dict | None:
    """Trains the case; at rank 0 also PyG alone, and the differences."""
    graph = hard_graph(case.multilabel)
    part = partition(graph.num_nodes, graph.edge_index, num_workers, case.partitioner)
    graph = without_training_in_last_part(graph, part, num_workers)
    job = job_of(case)
    matrix = aggregation_matrix(graph.num_nodes, graph.edge_index, job.model.kind)
    halo = build_halo(matrix, part, num_workers)
    shard = cut_shard(graph, halo, rank, sparse_features=case.sparse_features)
    model, masks = model_of(case, job, graph, matrix, halo, shard)
    losses, logits = [], None
    with closing(trainer_of(case, model, shard, graph, halo)) as trainer:
        for epoch in range(NUM_STEPS):
            if epoch % NUM_STEPS_A_SPLIT == 0 and 0 < epoch // NUM_STEPS_A_SPLIT < len(masks):
                assert isinstance(model, HybridModel)
                model.apply(masks[epoch // NUM_STEPS_A_SPLIT])
            losses.append(trainer.train_epoch(epoch, traced=False).loss)
            if epoch == 0:
                logits = _whole(trainer.logits(), model.vertices, graph.num_nodes, num_workers)
        dist.barrier()  # nobody closes what others may still wait at
    if rank != 0:
        return None
    assert logits is not None
    return {
        **case.__dict__,
        "optimizer": job.training.optimizer,
        "num_workers": num_workers,
        **differences(graph, job, logits, losses[-1]),
    }


def job_of(case: Case) -> Job:
    """What the case trains."""
    model = ModelSpec(
        kind=case.model,
        num_layers=NUM_LAYERS,
        hidden_channels=16,
        heads=4,
        dropout=case.dropout,
        input_dropout=case.input_dropout,
    )
    # Adam, the default, on METIS parts; plain SGD, whose steps do not hide a gradient's scale, on ranges.
    # With dropout SGD too: Adam turns the rounding of a near-zero gradient into a whole step, and PyG
    # alone, its edges listed in another order, then differs from itself by up to 7e-5 after 20 steps.
    by_adam = case.partitioner == "metis" and not case.dropout
    optimizer, learning_rate = ("adam", 0.01) if by_adam else ("sgd", 0.1)
    training = TrainingSpec(epochs=NUM_STEPS, optimizer=optimizer, learning_rate=learning_rate, seed=3)
    return Job(schema_version=1, graph=SbmGraph(source="sbm"), model=model, training=training)


def model_of(
    case: Case, job: Job, graph: Graph, matrix: sp.csr_matrix, halo: Halo, shard: Shard
) -> tuple[WorkerModel, list[np.ndarray]]:
    """A worker's model, and which halo rows it makes itself in every split in turn."""
    layers = tuple(
        LayerDecision(op_order=case.op_order, precompute=case.precompute and layer == 0)
        for layer in range(job.model.num_layers)
    )
    program = build_program(
        job.model,
        layers,
        num_features=graph.num_features,
        num_classes=graph.num_classes,
        sparse_input=case.sparse_features,
    )
    device = torch.device("cpu")
    if case.dependencies == "communicate":
        return WorkerModel(job, program, shard, device), []
    levels = levels_of(job.model, layers, graph.num_features, graph.num_classes)
    masks = cached_masks(case, halo, levels, shard.rank)
    staged = cut_staged(
        graph, matrix, halo.blocks[shard.rank], levels, program, masks[0], np.any(masks, axis=0), adjusts=False,
        sparse_features=case.sparse_features,
    )  # fmt: skip
    return HybridModel(job, program, shard, device, staged, adjusts=case.dependencies == "moving"), masks


def trainer_of(case: Case, model: WorkerModel, shard: Shard, graph: Graph, halo: Halo) -> FullBatchTrainer:
    """The case's trainer; it wants to be closed."""
    if case.max_staleness is None:
        return FullBatchTrainer(model, shard)
    decision = PartialReduceDecision(
        alpha=_NEVER,
        max_staleness=case.max_staleness,
        min_group=majority(shard.num_workers),
        contributing=tuple(map(tuple, contributing_with_halo(halo, graph.train_mask, model.job.model).tolist())),
    )
    return PartialReduceTrainer(model, shard, decision, timeout_s=TIMEOUT_S)


def cached_masks(case: Case, halo: Halo, levels: Levels, rank: int) -> list[np.ndarray]:
    """bool [levels, h] for every split in turn: of everything, of a random part, or of several."""
    shape = (levels.count - levels.first, len(halo.blocks[rank].halo))
    if case.dependencies == "cache":
        return [np.ones(shape, bool)]
    rng = np.random.default_rng(rank)
    return [rng.random(shape) < share for share in ((0.5,) if case.dependencies == "random" else (0.5, 1.0, 0.2, 0.0))]


def _whole(logits: Tensor, vertices: Tensor, num_nodes: int, num_workers: int) -> Tensor:
    """All rows of the logits on every worker; each row is written by its one owner."""
    whole = torch.zeros(num_nodes, logits.shape[1]).index_copy_(0, vertices, logits)
    if num_workers > 1:
        dist.all_reduce(whole)
    return whole


def differences(graph: Graph, job: Job, logits: Tensor, last_loss: float) -> dict:
    """Relative L2 of the logits after one step, relative difference of the last loss."""
    dropped = job.model.dropout or job.model.input_dropout
    x, edge_index, _ = graph_tensors(graph)
    vertices = torch.arange(graph.num_nodes)[:, None]

    def dropout(epoch: int):
        def drop(h: Tensor, layer: int, width: int) -> Tensor:
            probability = job.model.input_dropout if layer == INPUT_LAYER else job.model.dropout
            key = dropout_key(job.training.seed, epoch, layer)
            return h * keep_mask(key, vertices, torch.arange(width), width, probability) / (1 - probability)

        return drop

    one, _ = train_reference(graph, job.model, job.training, epochs=1, dropout=dropout if dropped else None)
    _, losses = train_reference(graph, job.model, job.training, dropout=dropout if dropped else None)
    with torch.no_grad():
        expected = pyg_forward(one, x, edge_index)
    return {
        "logits_rel_l2": float((logits - expected).norm() / expected.norm()),
        "loss_rel": abs(last_loss - losses[-1]) / abs(losses[-1]),
    }


def main() -> None:
    """Runs all cases and writes `rows.json` at rank 0."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    with reporting_errors(arguments.folder, rank):
        torch.set_num_threads(1)
        dist.init_process_group("gloo", timeout=timedelta(seconds=TIMEOUT_S))
        chosen = [case for case in cases(arguments.quick) if size > 1 or case.dependencies == "communicate"]
        rows = [run_case(case, rank, size) for case in chosen]
        if rank == 0:
            (arguments.folder / "rows.json").write_text(json.dumps(rows))
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
