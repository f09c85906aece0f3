"""GCN and GraphSAGE training as a PyG user or a torch user writes it: the peers' side of benchmarks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.nn.aggr import SumAggregation
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.nn.models import GCN
from torch_geometric.nn.models.basic_gnn import BasicGNN

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.graph import Graph
from gnnplan.planner.job import Job
from gnnplan.planner.model_spec import ModelKind
from gnnplan.planner.models.pyg_models import build_pyg_model
from gnnplan.profiles.kernels.csr import csr_tensor
from gnnplan.runtime.reference import build_optimizer, graph_tensors, loss_of

Forward = Callable[[], Tensor]


class Peer:
    """One way of training the same model from the same weights; `epoch()` is one step and its loss."""

    def __init__(self, graph: Graph, job: Job, make_forward: Callable[[BasicGNN, Graph], Forward]) -> None:
        self.net = build_pyg_model(job.model, graph.num_features, graph.num_classes, job.training.seed)
        self.forward = make_forward(self.net, graph)
        self.optimizer = build_optimizer(self.net.parameters(), job.training)
        self.y, self.mask = torch.from_numpy(graph.y), torch.from_numpy(graph.train_mask)
        self.test_mask = torch.from_numpy(graph.test_mask)

    def epoch(self) -> float:
        """One training step; returns its loss."""
        self.optimizer.zero_grad()
        loss = loss_of(self.forward(), self.y, self.mask)
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())

    @torch.no_grad()
    def test_accuracy(self) -> float:
        """Share of test vertices classified right."""
        predicted = self.forward().argmax(1)
        return float((predicted[self.test_mask] == self.y[self.test_mask]).float().mean())


def _normalized(graph: Graph) -> tuple[Tensor, Tensor, Tensor]:
    x, edge_index, _ = graph_tensors(graph)
    edge_index, weight = gcn_norm(edge_index, num_nodes=graph.num_nodes)
    return x, edge_index, weight


def pyg_cached(net: GCN, graph: Graph) -> Forward:
    """`GCNConv(cached=True)` on `edge_index`: PyG's default path."""
    x, edge_index, _ = graph_tensors(graph)
    for conv in net.convs:
        conv.cached = True
    return lambda: net(x, edge_index)


def pyg_edge_index(net: GCN, graph: Graph) -> Forward:
    """PyG's `EdgeIndex`, sorted, its caches filled, normalised once."""
    x, edge_index, weight = _normalized(graph)
    order = torch.argsort(edge_index[1], stable=True)
    size = (graph.num_nodes, graph.num_nodes)
    index = EdgeIndex(edge_index[:, order], sparse_size=size, sort_order="col").fill_cache_()
    weight = weight[order]
    for conv in net.convs:
        conv.normalize = False
    return lambda: net(x, index, weight)


def pyg_csr(net: BasicGNN, graph: Graph) -> Forward:
    """PyG on a `torch.sparse` CSR `adj_t`, normalised once: its fused `message_and_aggregate`.

    Features that are mostly zeros stay CSR too. GraphSAGE sums over the row-normalised matrix: the
    same numbers as its own mean, which torch computes several times slower.
    """
    x = torch.from_numpy(graph.x) if isinstance(graph.x, np.ndarray) else csr_tensor(graph.x)
    kind: ModelKind = "gcn" if isinstance(net, GCN) else "sage"
    adj_t = csr_tensor(aggregation_matrix(graph.num_nodes, graph.edge_index, kind))
    for conv in net.convs:
        if kind == "gcn":
            conv.normalize = False
        else:
            conv.aggr, conv.aggr_module = "sum", SumAggregation()
    return lambda: net(x, adj_t)


def torch_csr(order: str) -> Callable[[BasicGNN, Graph], Forward]:
    """A GCN by hand on torch CSR: `(AX)W`, `A(XW)`, or `(AX)W` with AX made once."""

    def make(net: BasicGNN, graph: Graph) -> Forward:
        x, _, _ = graph_tensors(graph)
        matrix = csr_tensor(aggregation_matrix(graph.num_nodes, graph.edge_index, "gcn"))
        ax = matrix @ x if order == "ax_once" else None
        first, *rest = net.convs

        def layer(h: Tensor, conv) -> Tensor:
            if order == "aggregate_first":
                return F.linear(matrix @ h, conv.lin.weight, conv.bias)
            return matrix @ F.linear(h, conv.lin.weight) + conv.bias

        def forward() -> Tensor:
            h = F.linear(ax, first.lin.weight, first.bias) if ax is not None else layer(x, first)
            for conv in rest:
                h = layer(h.relu(), conv)
            return h

        return forward

    return make
