"""Compositions of the `programs` benchmark: every allowed pair of techniques, trained over gloo.

Exact techniques are compared with one PyG process, stale and approximate ones with the sequential executor.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from gnnplan.planner.composition.compose import compose
from gnnplan.planner.composition.refusals import refusals
from gnnplan.planner.contracts.fidelity import ANY
from gnnplan.planner.contracts.technique import Choice, Situation
from gnnplan.planner.graph import Graph
from gnnplan.planner.job import Job, ModelSpec
from gnnplan.planner.models.forward import Task, forward_cycle, num_levels
from gnnplan.planner.partial.decision import PartialReduceDecision
from gnnplan.planner.program.cycle import EVALUATE, Cycle
from gnnplan.planner.program.optimizer import Optimizer
from gnnplan.planner.program.project import Projection, project
from gnnplan.planner.program.sequential import SequentialExecutor
from gnnplan.planner.program_shard import cut_program_shard
from gnnplan.planner.techniques.registry import technique
from gnnplan.runtime.execution.executor import ProgramExecutor
from gnnplan.runtime.execution.peers import Workers
from gnnplan.runtime.execution.sparse_rows import SparseRows
from gnnplan.runtime.partial.party import Party
from gnnplan.runtime.recorder import Recorder
from gnnplan.runtime.reference import build_pyg_model

# Under partial reduce nobody is ever gone on without here, so it is exact: rows and sums travel its way all the same.
EXACT = ("sparse_features", "first_aggregation", "feature_cache", "replicas", "overlap", "partial_reduce")
NOT_EXACT = ("joint_cache", "pruning")
INTERVAL = 3  # epochs from refresh to refresh
PATIENT = PartialReduceDecision(alpha=1e9, max_staleness=INTERVAL)
TIMEOUT_S = 60.0
_ON_SUMS = ("first_aggregation", "feature_cache")  # attention gathers nothing that is the same in every epoch


@dataclass(frozen=True)
class Composed:
    """Techniques beside halo exchange, and the order of operators of every layer."""

    techniques: tuple[str, ...]
    op_order: str

    @property
    def is_exact(self) -> bool:
        """Whether one PyG process gives its numbers."""
        return not set(self.techniques) & set(NOT_EXACT)


def compositions(model: str, quick: bool) -> Iterator[Composed]:
    """None, each alone, every pair that is allowed, and all that go together."""
    names = [name for name in (*EXACT, *NOT_EXACT) if model != "gat" or name not in _ON_SUMS]
    together = [name for name in names if name != "feature_cache"]
    groups = [(), *((name,) for name in names), *combinations(names, 2), tuple(together)]
    for group in groups:
        if not is_allowed(group):
            continue
        orders = (
            ("aggregate_first",)
            if set(group) & set(_ON_SUMS) or model == "gat"
            else ("multiply_first", "aggregate_first")
        )
        for order in orders[:1] if quick else orders:
            yield Composed(group, order)


def is_allowed(names: tuple[str, ...]) -> bool:
    """Whether these techniques go together, by the one function that says so."""
    chosen = [Choice(name, technique(name).Decision()) for name in ("halo_exchange", "operator_order", *names)]
    return not refusals(chosen, ANY)


def cycle_of(composed: Composed, job: Job, graph: Graph, matrix: sp.csr_matrix, part: np.ndarray, size: int) -> Cycle:
    """The programs of the composition, which hand their logits out."""
    masks = (graph.train_mask, graph.val_mask, graph.test_mask)
    entries = sp.csr_matrix(graph.x).getnnz(1)
    task = Task(matrix, graph.num_features, graph.num_classes, masks, entries, graph.is_multilabel)
    forward = forward_cycle(job.model, task, seed=job.training.seed, dense_features=True)
    forward = replace(forward, results=forward.results | {logits_of(forward)})
    training = job.training
    optimizer = Optimizer(training.optimizer, training.learning_rate, training.weight_decay)
    chosen = [_choice("halo_exchange", {"part": part.astype(np.int32)})]
    chosen.append(
        _choice("operator_order", of={f"l{k}/filter": composed.op_order for k in range(job.model.num_layers)})
    )
    chosen += [_choice(name, *_arguments(name, job.model, part, size)) for name in composed.techniques]
    return compose(forward, chosen, Situation(job.model, size, (0,) * size), optimizer)


def logits_of(cycle: Cycle) -> str:
    """The value that the evaluation counts right ones in."""
    return next(op.reads[0] for op in cycle.programs[EVALUATE] if op.kind == "hits")


def _choice(name: str, arrays: dict[str, np.ndarray] | None = None, **decision) -> Choice:
    if name == "joint_cache":
        decision = {"interval": INTERVAL}
    if name == "partial_reduce":
        decision = dict(PATIENT)
    return Choice(name, technique(name).Decision(**decision), arrays or {})


def _arguments(name: str, model: ModelSpec, part: np.ndarray, size: int) -> tuple[dict[str, np.ndarray]]:
    """A random third of all rows that a worker does not own, at every level that the technique is about."""
    if not technique(name).arrays:
        return ({},)
    rng, rows = np.random.default_rng(len(name)), []
    levels = [0] if name == "feature_cache" else range(num_levels(model))
    for level in levels:
        for worker in range(size):
            chosen = np.flatnonzero((rng.random(len(part)) < 1 / 3) & (part != worker))
            rows.append(np.stack([np.full(len(chosen), level), np.full(len(chosen), worker), chosen]))
    (array,) = technique(name).arrays
    return ({array: np.concatenate(rows, axis=1).astype(np.int32)},)


@dataclass(frozen=True)
class Trained:
    """What a training gave: every row's logits after a step, and the loss of every step."""

    logits: Tensor
    losses: list[float]


def train(cycle: Cycle, job: Job, graph: Graph, rank: int, size: int, num_steps: int) -> Trained:
    """Trains this process's part of a cycle; logits of all vertices come together at every worker."""
    recorder = Recorder(torch.device("cpu"))
    shard = cut_program_shard(cycle, graph, rank)
    net = build_pyg_model(job.model, graph.num_features, graph.num_classes, job.training.seed)
    inputs = {
        name: SparseRows(value, recorder.device) if sp.issparse(value) else torch.from_numpy(value)
        for name, value in shard.inputs.items()
    }
    projection, logits, losses = project(cycle, rank), torch.empty(0), []
    party = _party(projection, recorder, num_steps) if goes_on(cycle) else None
    executor = ProgramExecutor(
        projection, inputs, _matrices(net), recorder, party.peers if party else Workers(recorder)
    )
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
    if party:
        party.close()
    if size > 1:
        torch.distributed.all_reduce(logits)
    return Trained(logits, losses)


def goes_on(cycle: Cycle) -> bool:
    """Whether workers may go on without each other."""
    return any(op.attributes.get("group") for name in cycle.order for op in cycle.programs[name])


def _party(projection: Projection, recorder: Recorder, num_steps: int) -> Party:
    def nobody_is_missing(number: int, total: Tensor) -> None:
        raise AssertionError(f"round {number} went on without this worker")

    return Party.of(
        projection, PATIENT, recorder, num_epochs=num_steps, timeout_s=TIMEOUT_S, catch_up=nobody_is_missing
    )


def train_sequentially(cycle: Cycle, job: Job, graph: Graph, num_steps: int) -> Trained:
    """The same in one process and float64."""
    assert cycle.arrays
    net = build_pyg_model(job.model, graph.num_features, graph.num_classes, job.training.seed)
    labels = torch.from_numpy(graph.y)
    labels = labels if labels.dim() == 2 else labels[:, None]
    rows = cycle.arrays.ids
    x = [torch.from_numpy(graph.x[ids]) for ids in rows[cycle.values["x"].space]]
    if cycle.values["x"].layout == "csr":
        x = [each.to_sparse_csr() for each in x]
    y = [labels[ids] for ids in rows[cycle.values["y"].space]]
    executor = SequentialExecutor(cycle, {"x": x, "y": y}, _matrices(net))
    name, losses, logits = logits_of(cycle), [], torch.empty(0)
    for step in range(num_steps):
        results = executor.run(cycle.order[step % len(cycle.order)], step)
        losses.append(float(results["loss" if cycle.num_workers == 1 else "total_loss"][0]))
        if step == 0:
            parts = executor.run(EVALUATE)[name]
            logits = torch.zeros(graph.num_nodes, parts[0].shape[1], dtype=torch.float64)
            for ids, part in zip(rows[cycle.values[name].space], parts, strict=True):
                logits[torch.from_numpy(ids)] = part
    return Trained(logits, losses)


def _matrices(net: torch.nn.Module) -> dict[str, Tensor]:
    return {n: p.detach().view(len(p) if p.dim() > 1 else 1, -1) for n, p in net.named_parameters()}
