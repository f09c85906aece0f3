"""A module of one's own trained by PyG in one process, by the fastest of the ways that PyG's users have."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from statistics import median

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.nn.aggr import SumAggregation

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.graph import Graph
from gnnplan.planner.job import Job
from gnnplan.planner.models.module_source import module_of
from gnnplan.profiles.kernels.csr import csr_tensor
from gnnplan.runtime.reference import build_optimizer, dense_features, loss_of

_TRIED_EPOCHS = 4

Given = tuple[Tensor, Tensor]
"""Features, and edges or the matrix in their place, as the module's forward takes them."""


class PygTraining:
    """A module, what its forward is given, and its optimizer; `epoch()` is one step and its loss."""

    def __init__(self, graph: Graph, job: Job, way: str) -> None:
        self.net = module_of(job.model, graph.num_features, graph.num_classes, job.training.seed).train()
        self.given = WAYS[way](self.net, graph)
        self.optimizer = build_optimizer(self.net.parameters(), job.training)
        self.y, self.mask = torch.from_numpy(graph.y), torch.from_numpy(graph.train_mask)
        self.test_mask = torch.from_numpy(graph.test_mask)

    def epoch(self) -> float:
        """One training step; returns its loss."""
        self.optimizer.zero_grad()
        loss = loss_of(self.net(*self.given), self.y, self.mask)
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())

    def epoch_s(self, count: int) -> list[float]:
        """Seconds of some epochs, without a first one."""
        found = []
        for number in range(count + 1):
            begun_s = time.perf_counter()
            self.epoch()
            found += [time.perf_counter() - begun_s][: number > 0]
        return found

    @torch.no_grad()
    def test_accuracy(self) -> float:
        """Share of test vertices classified right."""
        predicted = self.net.eval()(*self.given).argmax(1)
        return float((predicted[self.test_mask] == self.y[self.test_mask]).float().mean())


def fastest_way(graph: Graph, job: Job) -> tuple[str, dict[str, float]]:
    """The one with the shortest epoch, and the median seconds of all that can train this module."""
    found = dict(_timed(graph, job))
    return min(found, key=lambda way: found[way]), found


def _timed(graph: Graph, job: Job) -> Iterator[tuple[str, float]]:
    for way in WAYS:
        try:
            yield way, median(PygTraining(graph, job, way).epoch_s(_TRIED_EPOCHS))
        except (NotImplementedError, RuntimeError, ValueError):  # torch has no such product, or no gradient of it
            continue


def _edges(net: nn.Module, graph: Graph) -> Given:
    for conv in _convs(net):
        if isinstance(conv, pyg.GCNConv):
            conv.cached = True
    return torch.from_numpy(dense_features(graph)), torch.from_numpy(graph.edge_index).long()


def _matrix(net: nn.Module, graph: Graph) -> Given:
    """Normalised once; GraphSAGE's mean is the sum over a matrix whose rows are divided, which torch sums faster."""
    convs = list(_convs(net))
    if any(isinstance(conv, pyg.GATConv) for conv in convs):
        raise ValueError("attention is of edges")
    for conv in convs:
        if isinstance(conv, pyg.GCNConv):
            conv.normalize = False
        else:
            conv.aggr, conv.aggr_module = "sum", SumAggregation()
    kind = "gcn" if isinstance(convs[0], pyg.GCNConv) else "sage"
    matrix = csr_tensor(aggregation_matrix(graph.num_nodes, graph.edge_index, kind))
    return torch.from_numpy(dense_features(graph)), matrix


def _sparse(take: Callable[[nn.Module, Graph], Given]) -> Callable[[nn.Module, Graph], Given]:
    def taken(net: nn.Module, graph: Graph) -> Given:
        if isinstance(graph.x, np.ndarray):
            raise ValueError("its features are dense")
        return csr_tensor(graph.x), take(net, graph)[1]

    return taken


WAYS: dict[str, Callable[[nn.Module, Graph], Given]] = {
    "edge_index": _edges,
    "torch.sparse": _matrix,
    "edge_index, sparse features": _sparse(_edges),
    "torch.sparse, sparse features": _sparse(_matrix),
}


def _convs(net: nn.Module) -> Iterator[pyg.MessagePassing]:
    return (each for each in net.modules() if isinstance(each, pyg.MessagePassing))
