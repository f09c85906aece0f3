"""How the `exactness` benchmark trains a case: over gloo, in the sequential executor, and by PyG alone."""

from __future__ import annotations

from dataclasses import dataclass

import scipy.sparse as sp
import torch
from torch import Tensor, nn

from benchmarks._exactness_cases import PATIENT, logits_of
from gnnplan.planner.graph import Graph
from gnnplan.planner.job import Job
from gnnplan.planner.models.pyg_models import build_pyg_model
from gnnplan.planner.program.cycle import EVALUATE, Cycle
from gnnplan.planner.program.project import Projection, project
from gnnplan.planner.program.sequential import SequentialExecutor
from gnnplan.planner.program_shard import cut_program_shard
from gnnplan.profiles.kernels.activation import dropout_key, keep_mask
from gnnplan.runtime.execution.executor import ProgramExecutor
from gnnplan.runtime.execution.peers import Workers
from gnnplan.runtime.execution.sparse_rows import SparseRows
from gnnplan.runtime.module_reference import on_edges, train_module
from gnnplan.runtime.partial.party import Party
from gnnplan.runtime.recorder import Recorder
from gnnplan.runtime.reference import INPUT_LAYER, graph_tensors, pyg_forward, train_reference

TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Trained:
    """What a training gave: every row's logits after a step, and the loss of every step."""

    logits: Tensor
    losses: list[float]


def train(cycle: Cycle, job: Job, graph: Graph, rank: int, size: int) -> Trained:
    """Trains this process's part of a cycle; logits of all vertices come together at every worker."""
    recorder = Recorder(torch.device("cpu"))
    shard = cut_program_shard(cycle, graph, rank)
    inputs = {
        name: SparseRows(value, recorder.device) if sp.issparse(value) else torch.from_numpy(value)
        for name, value in shard.inputs.items()
    }
    projection, logits, losses = project(cycle, rank), torch.empty(0), []
    num_steps = job.training.epochs
    party = _party(projection, recorder, num_steps) if goes_on(cycle) else None
    peers = party.peers if party else Workers(recorder)
    executor = ProgramExecutor(projection, inputs, _matrices(_net(job, graph)), recorder, peers)
    if party:
        party.connect()
    name = logits_of(cycle)
    assert cycle.arrays
    own = torch.from_numpy(cycle.arrays.ids[cycle.values[name].space][rank])
    for step in range(num_steps):
        if party:
            party.lateness.begin(step)
        results = executor.run(cycle.order[step % len(cycle.order)], step)
        losses.append(float(results["loss" if size == 1 else "total_loss"]))
        if step == 0:
            mine = executor.run(EVALUATE)[name]
            logits = torch.zeros(graph.num_nodes, mine.shape[1]).index_copy_(0, own, mine)
    if size > 1:
        torch.distributed.all_reduce(logits)  # nobody closes what others still wait at
    if party:
        party.close()
    return Trained(logits, losses)


def goes_on(cycle: Cycle) -> bool:
    """Whether workers may go on without each other."""
    return any(op.attributes.get("group") for op in cycle.operators_of_epochs())


def _party(projection: Projection, recorder: Recorder, num_epochs: int) -> Party:
    def nobody_is_missing(number: int, total: Tensor) -> None:
        raise AssertionError(f"round {number} went on without this worker")

    return Party.of(
        projection, PATIENT, recorder, num_epochs=num_epochs, timeout_s=TIMEOUT_S, catch_up=nobody_is_missing
    )


def train_sequentially(cycle: Cycle, job: Job, graph: Graph) -> Trained:
    """The same in one process and float64."""
    assert cycle.arrays
    labels = torch.from_numpy(graph.y)
    labels = labels if labels.dim() == 2 else labels[:, None]
    rows = cycle.arrays.ids
    x = [torch.from_numpy(graph.x[ids]) for ids in rows[cycle.values["x"].space]]
    if cycle.values["x"].layout == "csr":
        x = [each.to_sparse_csr() for each in x]
    y = [labels[ids] for ids in rows[cycle.values["y"].space]]
    executor = SequentialExecutor(cycle, {"x": x, "y": y}, _matrices(_net(job, graph)))
    name, losses, logits = logits_of(cycle), [], torch.empty(0)
    for step in range(job.training.epochs):
        results = executor.run(cycle.order[step % len(cycle.order)], step)
        losses.append(float(results["loss" if cycle.num_workers == 1 else "total_loss"][0]))
        if step == 0:
            parts = executor.run(EVALUATE)[name]
            logits = torch.zeros(graph.num_nodes, parts[0].shape[1], dtype=torch.float64)
            for ids, part in zip(rows[cycle.values[name].space], parts, strict=True):
                logits[torch.from_numpy(ids)] = part
    return Trained(logits, losses)


def _net(job: Job, graph: Graph) -> nn.Module:
    if job.model.kind == "module":
        return job.model.held
    return build_pyg_model(job.model, graph.num_features, graph.num_classes, job.training.seed)


def _matrices(net: nn.Module) -> dict[str, Tensor]:
    return {n: p.detach().view(len(p) if p.dim() > 1 else 1, -1).clone() for n, p in net.named_parameters()}


def _module_alone(graph: Graph, job: Job) -> Trained:
    net, training = job.model.held, job.training
    one, _ = train_module(net, graph, training.model_copy(update={"epochs": 1}))
    x, edge_index, _ = graph_tensors(graph)
    with torch.no_grad():
        logits = one.eval()(x, edge_index, **on_edges(net, graph, torch.float32))
    return Trained(logits, train_module(net, graph, training)[1])


def train_alone(graph: Graph, job: Job) -> Trained:
    """The same by one PyG process."""
    if job.model.kind == "module":
        return _module_alone(graph, job)
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
        return Trained(pyg_forward(one, x, edge_index), losses)
