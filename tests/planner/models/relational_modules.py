"""Modules on graphs whose edges have types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric import nn as pyg

from gnnplan.planner.graph import Graph
from tests.planner.models.own_modules import WIDTH
from tests.planner.program.cases import small_graph

NUM_TYPES = 4


def graph_with_types(graph: Graph | None = None) -> Graph:
    """A graph, the small one by itself, whose edges have types; the last but one has no edge."""
    graph = graph or small_graph()
    types = np.random.default_rng(9).choice([0, 1, 3], graph.num_edges, p=[0.6, 0.3, 0.1])
    return replace(graph, edge_values={"edge_type": types.astype(np.int64)})


class Relational(nn.Module):
    """Two layers with types of edges, and dropout between."""

    def __init__(self, convs: list[nn.Module], dropout: float = 0.0) -> None:
        super().__init__()
        self.convs, self.dropout = nn.ModuleList(convs), dropout

    def forward(self, x, edge_index, edge_type):
        for conv in self.convs[:-1]:
            x = F.dropout(F.relu(conv(x, edge_index, edge_type)), self.dropout, self.training)
        return self.convs[-1](x, edge_index, edge_type)


class Embedded(pyg.MessagePassing):
    """A layer of one's own, with a vector for every type."""

    def __init__(self, in_width: int, out_width: int, num_types: int) -> None:
        super().__init__(aggr="add")
        self.lin, self.of_type = nn.Linear(in_width, out_width), nn.Embedding(num_types, out_width)

    def forward(self, x, edge_index, edge_type):
        return self.propagate(edge_index, x=self.lin(x), of_type=self.of_type(edge_type))

    def message(self, x_j, of_type):
        return x_j * torch.sigmoid(of_type)


class Beside(nn.Module):
    """Typed sums, and one over all edges of the same rows."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.first, self.all = pyg.RGCNConv(num_features, WIDTH, NUM_TYPES), pyg.SAGEConv(num_features, WIDTH)
        self.last = pyg.RGCNConv(WIDTH, num_classes, NUM_TYPES)

    def forward(self, x, edge_index, edge_type):
        x = torch.tanh(self.first(x, edge_index, edge_type=edge_type) + self.all(x, edge_index))
        return self.last(x, edge_index, edge_type)


def relational(conv: Callable, dropout: float = 0.0, **options) -> Callable[[int, int], nn.Module]:
    """Builds a module of two such layers."""
    options = {"num_relations": NUM_TYPES, **options}
    return lambda f, c: Relational([conv(f, WIDTH, **options), conv(WIDTH, c, **options)], dropout)


KNOWN: dict[str, Callable[[int, int], nn.Module]] = {
    "rgcn": relational(pyg.RGCNConv),
    "rgcn, dropout": relational(pyg.RGCNConv, 0.5),
    "rgcn, bases": relational(pyg.RGCNConv, num_bases=2),
    "rgcn, sums": relational(pyg.RGCNConv, aggr="add"),
    "rgcn, without root": relational(pyg.RGCNConv, root_weight=False, bias=False),
    "rgcn, more relations": relational(pyg.RGCNConv, num_relations=NUM_TYPES + 1),
    "fast rgcn": relational(pyg.FastRGCNConv),
    "beside a sum over all": Beside,
}
"""By their equations."""
OWN: dict[str, Callable[[int, int], nn.Module]] = {
    "rgcn, greatest": relational(pyg.RGCNConv, aggr="max"),
    "embedded": lambda f, c: Relational([Embedded(f, WIDTH, NUM_TYPES), Embedded(WIDTH, c, NUM_TYPES)]),
}
"""Others run their own code."""
