"""Modules of one's own: trained by PyG alone, and by their program through the passes of techniques."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from gnnplan.planner.graph import Graph
from gnnplan.planner.models.forward import Task
from gnnplan.planner.models.module_forward import module_cycle
from gnnplan.planner.models.module_state import matrices_of, store
from gnnplan.planner.pairs import Pairs
from gnnplan.planner.program.constant import hoist_constants
from gnnplan.planner.program.cutter import Cutter
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.derive import differentiate
from gnnplan.planner.program.labels import Label, Labels
from gnnplan.planner.program.optimizer import Optimizer
from gnnplan.planner.program.sequential import SequentialExecutor
from gnnplan.planner.program.split import split_placed
from gnnplan.planner.program.storage import reuse_storage
from gnnplan.planner.program_shard import inputs_on_edges, rows_on_edges
from gnnplan.planner.relations import any_matrix
from gnnplan.planner.techniques.feature_slices.grid import Grid
from gnnplan.planner.techniques.feature_slices.layout import share_columns
from gnnplan.planner.techniques.halo_exchange.layout import share_rows
from gnnplan.planner.techniques.joint_cache.refresh import refresh_every
from gnnplan.planner.techniques.operator_order.expand import expand_filters
from gnnplan.planner.techniques.overlap.lanes import overlap_exchanges
from gnnplan.planner.training_spec import TrainingSpec
from gnnplan.runtime.module_reference import on_edges, train_module
from gnnplan.runtime.reference import dense_features
from tests.planner.program.cases import as_csr, partition, small_graph, worst

SEED, RATE = 3, 0.05
NOTHING = 1e-9
STEP = Optimizer("sgd", RATE)
TECHNIQUES = ("halo_exchange", "replicas", "overlap", "joint_cache", "once", "feature_slices")


@dataclass
class Outcome:
    """What came of a training: every epoch's loss, the state of the module, and its logits in evaluation."""

    losses: list[float]
    state: dict[str, Tensor]
    hits: list[list[float]] = field(default_factory=list)

    def off(self, other: Outcome, nothing: float = NOTHING) -> float:
        """The largest relative L2 error against another training.

        A bias before a norm has no effect, so its gradient is rounding: what stays near zero is compared
        with `nothing`.
        """
        assert self.state.keys() == other.state.keys()
        errors = [worst(np.array(self.losses), np.array(other.losses))]
        for name, want in other.state.items():
            distance, length = (float(each.double().norm()) for each in (self.state[name] - want, want))
            errors.append(distance / max(length, nothing) if math.isfinite(distance) else math.inf)
        return max(errors)


def by_pyg(module: nn.Module, graph: Graph, epochs: int) -> Outcome:
    """Plain autograd in one process, in float64."""
    training = TrainingSpec(optimizer="sgd", learning_rate=RATE, epochs=epochs, seed=SEED)
    module, losses = train_module(module, graph, training, torch.float64)
    module.eval()
    with torch.no_grad():
        x, edge_index = torch.from_numpy(dense_features(graph)).double(), torch.from_numpy(graph.edge_index).long()
        logits = module(x, edge_index, **on_edges(module, graph, torch.float64))
    right = logits.argmax(1) == torch.from_numpy(graph.y)
    masks = (graph.train_mask, graph.val_mask, graph.test_mask)
    hits = [[float(right[torch.from_numpy(each)].sum()), float(each.sum())] for each in masks]
    hits = reciprocal_ranks(logits, graph.pairs) if graph.pairs else hits
    return Outcome(losses, {name: each.detach().clone() for name, each in module.state_dict().items()}, hits)


def reciprocal_ranks(embeddings: Tensor, pairs: Pairs) -> list[list[float]]:
    """Of every split one over the ranks of its edges, and how many there are, pair by pair."""
    of, scores = pairs.ranked.matrix.tocoo(), embeddings @ embeddings.T
    told, found = pairs.ranked.told[of.data - 1], [[0.0, 0.0] for _ in range(3)]
    for head, tail, (*splits, _) in zip(of.row, of.col, told):
        others = scores[head, of.col[(of.row == head) & (told[:, -1] > 0)]]
        own = scores[head, tail]
        rank = 1 + float((others > own).sum()) + 0.5 * float((others == own).sum())
        for split, of_split in enumerate(splits):
            found[split][0] += of_split / rank
            found[split][1] += of_split
    return found


def forward_of(module: nn.Module, graph: Graph, *, sparse: bool = False, loss: str = "") -> Cycle:
    """The forward programs of one worker; features are CSR where they are `sparse`."""
    masks = (graph.train_mask, graph.val_mask, graph.test_mask)
    matrix = sp.csr_matrix((graph.num_nodes, graph.num_nodes))
    told = {"pairs": graph.pairs, "metric": "mrr" if graph.pairs else "", "loss": loss}
    told |= {"feature_entries": np.count_nonzero(dense_features(graph), axis=1)} if sparse else {}
    task = Task(matrix, graph.num_features, graph.num_classes, masks, edge_values=graph.edge_values, **told)
    matrix_of = lambda kind: any_matrix(graph.num_nodes, graph.edge_index, kind, graph.edge_values)  # noqa: E731
    return module_cycle(module, task, matrix_of, seed=SEED)[0]


def composed(
    module: nn.Module,
    graph: Graph,
    num_workers: int,
    technique: str,
    part: np.ndarray,
    optimizer: Optimizer = STEP,
) -> Cycle:
    """The cycle of a training, through the passes of one technique."""
    cycle = forward_of(module, graph, sparse=technique == "sparse_features")
    filters = [op.key for op in cycle.programs["train"] if op.kind == "filter"]
    once = technique == "once"
    cycle = expand_filters(cycle, {key: "aggregate_first" for i, key in enumerate(filters) if once or i % 2})
    if technique == "feature_slices":
        cycle = share_columns(cycle, Grid((3.0, 2.0, 1.0, 1.0)[:num_workers]))
    else:
        label = {"replicas": Label.MADE, "joint_cache": Label.KEPT}.get(technique)
        cycle = share_rows(cycle, Cutter(part, num_workers, _labels(cycle, num_workers, len(part), label)))
    cycle = split_placed(cycle)
    cycle = hoist_constants(cycle) if once else cycle
    cycle = differentiate(cycle, optimizer)
    cycle = refresh_every(cycle, 1)
    cycle = reuse_storage(cycle)
    return overlap_exchanges(cycle) if technique == "overlap" else cycle


def _labels(cycle: Cycle, num_workers: int, num_nodes: int, label: Label | None) -> Labels:
    labels, rng = Labels(), np.random.default_rng(1)
    levels = max(space.level or 0 for space in cycle.spaces.values())
    for level, worker in np.ndindex(levels, num_workers if label is not None else 0):
        labels = labels.marked(level, worker, np.flatnonzero(rng.random(num_nodes) < 0.5), label)
    return labels


def inputs_of(cycle: Cycle, graph: Graph) -> dict[str, list[Tensor]]:
    """Every worker's rows of the inputs."""
    x, y = torch.from_numpy(dense_features(graph)), torch.from_numpy(graph.y)
    ids = cycle.arrays.ids
    on_edges = {
        name: [torch.from_numpy(rows_on_edges(cycle, graph, name, worker)) for worker in cycle.workers]
        for name in inputs_on_edges(cycle)
    }
    labels = {} if "y" not in cycle.values else {"y": [y[each][:, None] for each in ids[cycle.values["y"].space]]}
    rows = [x[each] for each in ids["v@0"]]
    rows = [as_csr(each) for each in rows] if cycle.values["x"].layout == "csr" else rows
    return {"x": rows, **labels, **on_edges}


def by_program(module: nn.Module, graph: Graph, num_workers: int, technique: str, epochs: int) -> Outcome:
    """The sequential executor, in float64; all workers must end with the same parameters."""
    module = deepcopy(module).double()
    cycle = composed(module, graph, num_workers, technique, partition(num_workers))
    start = matrices_of(module, cycle)
    executor = SequentialExecutor(cycle, inputs_of(cycle, graph), start, module=module)
    losses = []
    for epoch in range(epochs):
        results = executor.run(cycle.order[0], epoch)
        losses.append(float(results["loss" if num_workers == 1 else "total_loss"][0]))
    hits = executor.run("evaluate")["hits"][0].tolist()
    ends = [{name: executor.stored[name][worker] for name in start} for worker in cycle.workers]
    for end in ends[1:]:
        assert all(torch.equal(each, ends[0][name]) for name, each in end.items())
    store(module, cycle, ends[0], epochs)
    return Outcome(losses, {name: each.detach() for name, each in module.state_dict().items()}, hits)


@contextmanager
def seeded(seed: int = 0) -> Iterator[None]:
    """Modules made in here are the same in every run."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def made(build: Callable[..., nn.Module], graph: Graph | None = None) -> nn.Module:
    """A module for a graph's features and classes."""
    graph = graph or small_graph()
    with seeded():
        return build(graph.num_features, graph.num_classes)


def workers_and_techniques() -> Sequence[tuple[int, str]]:
    """What every module is trained by."""
    return [(1, "halo_exchange"), *((3, each) for each in TECHNIQUES), (2, "replicas"), (4, "halo_exchange")]
