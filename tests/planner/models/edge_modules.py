"""Modules that take weights or features of edges beside (x, edge_index)."""

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

NUM_EDGE_FEATURES = 3


def graph_with_edges() -> Graph:
    """The small graph, with positive weights and features of edges."""
    graph, rng = small_graph(), np.random.default_rng(5)
    weight = rng.uniform(0.2, 2, graph.num_edges).astype(np.float32)
    features = rng.normal(size=(graph.num_edges, NUM_EDGE_FEATURES)).astype(np.float32)
    return replace(graph, edge_values={"edge_weight": weight, "edge_attr": features})


class Weighted(nn.Module):
    """Two layers with weights of edges."""

    def __init__(self, convs: list[nn.Module]) -> None:
        super().__init__()
        self.convs = nn.ModuleList(convs)

    def forward(self, x, edge_index, edge_weight=None):
        for conv in self.convs[:-1]:
            x = torch.tanh(conv(x, edge_index, edge_weight))
        return self.convs[-1](x, edge_index, edge_weight)


class Featured(nn.Module):
    """Two layers with features of edges, by keyword and after another argument."""

    def __init__(self, convs: list[nn.Module]) -> None:
        super().__init__()
        self.convs = nn.ModuleList(convs)

    def forward(self, x, edge_index, scale=1.0, edge_attr=None):
        for conv in self.convs[:-1]:
            x = torch.tanh(conv(x, edge_index, edge_attr=edge_attr)) * scale
        return self.convs[-1](x, edge_index, edge_attr=edge_attr)


class MeshLayer(pyg.MessagePassing):
    """As a layer of MeshGraphNet (Pfaff et al. 2021), but edges' features are encoded in it, and stay as they are."""

    def __init__(self, width: int, num_edge_features: int) -> None:
        super().__init__(aggr="add")
        self.encode = nn.Sequential(nn.Linear(num_edge_features, width), nn.ReLU(), nn.Linear(width, width))
        self.edge = nn.Sequential(nn.Linear(3 * width, width), nn.ReLU(), nn.Linear(width, width), nn.LayerNorm(width))
        self.node = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, width), nn.LayerNorm(width))

    def forward(self, x, edge_index, edge_attr):
        messages = self.propagate(edge_index, x=x, edge_attr=self.encode(edge_attr))
        return x + self.node(torch.cat([x, messages], dim=1))

    def message(self, x_i, x_j, edge_attr):
        return self.edge(torch.cat([x_i, x_j, edge_attr], dim=1)) + edge_attr


class Mesh(nn.Module):
    """Encoder, processor, decoder."""

    def __init__(self, num_features: int, num_classes: int, layers: int = 2, width: int = WIDTH) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(num_features, width), nn.ReLU(), nn.Linear(width, width))
        self.layers = nn.ModuleList([MeshLayer(width, NUM_EDGE_FEATURES) for _ in range(layers)])
        self.head = nn.Linear(width, num_classes)

    def forward(self, x, edge_index, edge_attr):
        x = F.relu(self.first(x))
        for layer in self.layers:
            x = layer(x, edge_index, edge_attr)
        return self.head(x)


class UpdatingLayer(MeshLayer):
    """A layer of MeshGraphNet: it makes new features of edges from both ends, and rows from these."""

    def __init__(self, width: int, num_edge_features: int) -> None:
        super().__init__(width, num_edge_features)
        del self.encode

    def forward(self, x, edge_index, edge_attr):
        ends = torch.cat([x[edge_index[1]], x[edge_index[0]], edge_attr], dim=1)
        edge_attr = edge_attr + self.edge(ends)
        messages = self.propagate(edge_index, size=(len(x), len(x)), edge_attr=edge_attr)
        return x + self.node(torch.cat([x, messages], dim=1)), edge_attr

    def message(self, edge_attr):
        return edge_attr


class MeshGraphNet(nn.Module):
    """Pfaff et al. 2021: features of edges change from layer to layer; here also by a function between."""

    def __init__(self, num_features: int, num_classes: int, layers: int = 3, width: int = WIDTH) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(num_features, width), nn.Linear(width, num_classes)
        self.encode = nn.Sequential(nn.Linear(NUM_EDGE_FEATURES, width), nn.ReLU(), nn.Linear(width, width))
        self.layers = nn.ModuleList([UpdatingLayer(width, NUM_EDGE_FEATURES) for _ in range(layers)])

    def forward(self, x, edge_index, edge_attr):
        x, edge_attr = F.relu(self.first(x)), self.encode(edge_attr)
        for layer in self.layers:
            x, edge_attr = layer(x, edge_index, edge_attr)
            edge_attr = torch.tanh(edge_attr)
        return self.head(x)


class Encoded(nn.Module):
    """Features of edges are encoded beside the layers, once for all of them, as people do before GINE."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(num_features, WIDTH), nn.Linear(WIDTH, num_classes)
        self.encode = nn.Sequential(nn.Linear(NUM_EDGE_FEATURES, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
        self.norm = nn.LayerNorm(WIDTH)
        self.convs = nn.ModuleList([pyg.GINEConv(nn.Linear(WIDTH, WIDTH)) for _ in range(2)])

    def forward(self, x, edge_index, edge_attr):
        x, edge_attr = self.first(x), F.gelu(self.norm(self.encode(edge_attr)))
        for conv in self.convs:
            x = torch.tanh(conv(x, edge_index, edge_attr))
        return self.head(x)


CARRIED: dict[str, Callable[[int, int], nn.Module]] = {
    "meshgraphnet": MeshGraphNet,
    "meshgraphnet, one layer": lambda f, c: MeshGraphNet(f, c, layers=1),
}
"""Features of edges that layers make, and later ones read."""


def _weighted(conv: Callable, **options):
    return lambda f, c: Weighted([conv(f, WIDTH, **options), conv(WIDTH, c, **options)])


def _featured(conv: Callable, **options):
    options = {"edge_dim": NUM_EDGE_FEATURES, **options}
    return lambda f, c: Featured([conv(f, WIDTH, **options), conv(WIDTH, c, **options)])


def _gine(a: int, b: int, edge_dim: int) -> nn.Module:
    return pyg.GINEConv(nn.Sequential(nn.Linear(a, WIDTH), nn.ReLU(), nn.Linear(WIDTH, b)), edge_dim=edge_dim)


KNOWN: dict[str, Callable[[int, int], nn.Module]] = {
    "gcn, weights": _weighted(pyg.GCNConv),
    "gcn, weights, no loops": _weighted(pyg.GCNConv, add_self_loops=False),
    "gcn, weights alone": _weighted(pyg.GCNConv, normalize=False),
    "graph, weights": _weighted(pyg.GraphConv),
    "tag, weights": _weighted(pyg.TAGConv, K=2),
}
"""Sums with weights of edges have aggregation matrices, and all decisions of sums."""
OWN: dict[str, Callable[[int, int], nn.Module]] = {
    "graph, greatest weighted": _weighted(pyg.GraphConv, aggr="max"),
    "gatv2, features": _featured(pyg.GATv2Conv),
    "gat, features": _featured(pyg.GATConv, add_self_loops=False),
    "transformer, features": _featured(pyg.TransformerConv),
    "gine": _featured(_gine),
    "gen, features": _featured(pyg.GENConv, num_layers=1),
    "mesh": Mesh,
    "encoded beside": Encoded,
}
"""Others run their own code."""
