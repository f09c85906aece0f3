"""The epoch's buffers, as counted, are those the runtime makes: to the byte."""

import gc
from itertools import product

import pytest
import torch

from planner.adjacency import aggregation_matrix
from planner.buffers import Buffers, epoch_buffers
from planner.generate import generate_sbm
from planner.halo import build_halo
from planner.job import Job, ModelSpec, SbmGraph, TrainingSpec
from planner.program import LayerDecision, build_program
from planner.shapes import WorkerShape, worker_shapes
from planner.shard import cut_shard
from profiles.kernels import pool
from runtime.full_batch import FullBatchTrainer

MULTIPLY = LayerDecision(op_order="multiply_first")
AGGREGATE = LayerDecision(op_order="aggregate_first")
ONCE = LayerDecision(op_order="aggregate_first", precompute=True)
SPEC = SbmGraph(source="sbm", num_nodes=3000, average_degree=12, num_classes=16, num_features=96)
KINDS = ["gcn", "sage", "gin", "tagcn"]
CASES = [("gat", MULTIPLY, MULTIPLY, False)] + [
    (kind, first, later, sparse)
    for kind, first, later, sparse in product(KINDS, [MULTIPLY, AGGREGATE, ONCE], [MULTIPLY, AGGREGATE], [False, True])
    if not (sparse and first is AGGREGATE)  # aggregating sparse rows every epoch is never decided
]


@pytest.fixture(scope="module")
def graph():
    return generate_sbm(SPEC)


@pytest.mark.parametrize(("kind", "first", "later", "sparse"), CASES)
def test_pool_holds_what_was_counted(graph, kind, first, later, sparse):
    """After two epochs of real training the pool's blocks are the predicted ones, to the byte."""
    layers = (first, later, later)
    model = ModelSpec(kind=kind, num_layers=3, hidden_channels=64, num_hops=2, heads=4, dropout=0.5)
    job = Job(schema_version=1, graph=SPEC, model=model, training=TrainingSpec(epochs=2))
    program = build_program(model, layers, num_features=96, num_classes=16, sparse_input=sparse)
    part = torch.zeros(graph.num_nodes, dtype=torch.int32).numpy()
    halo = build_halo(aggregation_matrix(graph.num_nodes, graph.edge_index, kind), part, 1)
    (shape,) = worker_shapes(graph, halo, num_hops=program.num_hops_precomputed, sparse_features=sparse)
    shard = cut_shard(graph, halo, 0, sparse_features=sparse)
    gc.collect()
    trainer = FullBatchTrainer(job, program, shard, torch.device("cpu"))
    pool.release()
    for epoch in range(2):
        trainer.train_epoch(epoch, traced=False)
    trainer.optimizer.zero_grad(set_to_none=True)
    assert pool.held_bytes() == epoch_buffers(program, shape, 16, 1).pooled_bytes > 0


def test_every_buffer_is_dropped():
    """Nothing that an epoch makes outlives it, on any number of workers."""
    shape = WorkerShape(
        num_local=1000, num_halo=200, num_sent=150, local_edges=9000, remote_edges=900, num_train=600,
        hop_entries=(32_000,) * 4,
    )  # fmt: skip
    for (kind, first, later, sparse), num_workers in product(CASES, (1, 3)):
        model = ModelSpec(kind=kind, num_layers=3, hidden_channels=64, num_hops=2, heads=4)
        program = build_program(model, (first, later, later), num_features=32, num_classes=8, sparse_input=sparse)
        buffers = epoch_buffers(program, shape, 8, num_workers)
        assert buffers.live_bytes == 0, (kind, first, later, sparse, num_workers)
        assert buffers.peak_bytes <= buffers.held_bytes


def test_a_size_counts_as_often_as_it_lives_at_once():
    """Two at once are two blocks; one after the other they are one; another size never serves."""
    buffers, size = Buffers(), pool.POOLED_BYTES // 4
    first, second = buffers.make(size), buffers.make(size)
    buffers.drop(first)
    third = buffers.make(size)
    buffers.drop(second, third)
    buffers.drop(buffers.make(2 * size))
    assert buffers.pooled_bytes == 2 * pool.POOLED_BYTES + 2 * pool.POOLED_BYTES
    assert buffers.peak_bytes == 2 * pool.POOLED_BYTES
