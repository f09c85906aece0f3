"""The epoch's buffers, as counted, are those the runtime makes: to the byte."""

import gc
from itertools import product

import pytest
import torch

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.buffers import Buffers, epoch_buffers
from gnnplan.planner.generate import generate_sbm
from gnnplan.planner.halo import build_halo
from gnnplan.planner.job import Job, ModelSpec, SbmGraph, TrainingSpec
from gnnplan.planner.shapes import WorkerShape, worker_shapes
from gnnplan.planner.shard import cut_shard
from gnnplan.planner.steps import LayerDecision, build_program
from gnnplan.profiles.kernels import pool
from gnnplan.runtime.full_batch import FullBatchTrainer
from gnnplan.runtime.model import WorkerModel

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


def alone(graph, kind, layers, device, *, sparse=False, dropout=0.0):
    """A worker that has the whole graph, as a trainer, and its program and shape."""
    model = ModelSpec(kind=kind, num_layers=3, hidden_channels=64, num_hops=2, heads=4, dropout=dropout)
    job = Job(schema_version=1, graph=SPEC, model=model, training=TrainingSpec(epochs=2))
    program = build_program(model, layers, num_features=96, num_classes=16, sparse_input=sparse)
    part = torch.zeros(graph.num_nodes, dtype=torch.int32).numpy()
    halo = build_halo(aggregation_matrix(graph.num_nodes, graph.edge_index, kind), part, 1)
    (shape,) = worker_shapes(graph, halo, num_hops=program.num_hops_precomputed, sparse_features=sparse)
    shard = cut_shard(graph, halo, 0, sparse_features=sparse)
    gc.collect()
    return FullBatchTrainer(WorkerModel(job, program, shard, torch.device(device)), shard), program, shape


@pytest.mark.parametrize(("kind", "first", "later", "sparse"), CASES)
def test_pool_holds_what_was_counted(graph, kind, first, later, sparse):
    """After two epochs of real training the pool's blocks are the predicted ones, to the byte."""
    trainer, program, shape = alone(graph, kind, (first, later, later), "cpu", sparse=sparse, dropout=0.5)
    pool.release()
    for epoch in range(2):
        trainer.train_epoch(epoch, traced=False)
    trainer.optimizer.zero_grad(set_to_none=True)
    assert pool.held_bytes() == epoch_buffers(program, shape, 16, 1).pooled_bytes > 0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_attention_on_a_gpu_takes_what_was_counted(graph):
    """The most that torch's allocator has of an epoch at once, to a tenth."""
    trainer, program, shape = alone(graph, "gat", (MULTIPLY,) * 3, "cuda")
    trainer.train_epoch(0, traced=False)
    trainer.optimizer.zero_grad(set_to_none=True)
    held_bytes = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    trainer.train_epoch(1, traced=False)
    made_bytes = torch.cuda.max_memory_allocated() - held_bytes
    assert epoch_buffers(program, shape, 16, 1, on_cuda=True).peak_bytes == pytest.approx(made_bytes, rel=0.1)


def test_attention_on_a_gpu_makes_rows_of_every_edge():
    """Backward, at the peak, three at once, where a CPU's kernel makes the gradients of the scores alone."""
    shape = WorkerShape(
        num_local=1000, num_halo=0, num_sent=0, local_edges=50_000, remote_edges=0, num_train=600,
        hop_entries=(32_000,) * 4,
    )  # fmt: skip
    model = ModelSpec(kind="gat", num_layers=1, heads=4)
    program = build_program(model, (MULTIPLY,), num_features=32, num_classes=8, sparse_input=False)
    rows, scores = (pool.block_bytes(4 * 50_000 * width) for width in (32, 4))
    # Rows and scores of vertices; gradients of the output, of all heads, of rows and scores.
    of_vertices = sum(pool.block_bytes(4 * 1000 * width) for width in (32, 4, 4, 8, 32, 32, 4, 4))
    assert epoch_buffers(program, shape, 8, 1).peak_bytes == of_vertices + 2 * scores
    assert epoch_buffers(program, shape, 8, 1, on_cuda=True).peak_bytes == of_vertices + scores + 3 * rows


def test_every_buffer_is_dropped():
    """Nothing that an epoch makes outlives it, on any number of workers."""
    shape = WorkerShape(
        num_local=1000, num_halo=200, num_sent=150, local_edges=9000, remote_edges=900, num_train=600,
        hop_entries=(32_000,) * 4,
    )  # fmt: skip
    for (kind, first, later, sparse), num_workers, on_cuda in product(CASES, (1, 3), (False, True)):
        model = ModelSpec(kind=kind, num_layers=3, hidden_channels=64, num_hops=2, heads=4)
        program = build_program(model, (first, later, later), num_features=32, num_classes=8, sparse_input=sparse)
        buffers = epoch_buffers(program, shape, 8, num_workers, on_cuda=on_cuda)
        assert buffers.live_bytes == 0, (kind, first, later, sparse, num_workers, on_cuda)
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
