"""Modules of the `models` benchmark with layers that run their own code on workers, which import them from here."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric import nn as pyg

WIDTH, NUM_EDGE_FEATURES = 64, 4


class EdgeConv(pyg.MessagePassing):
    """A `MessagePassing` as PyG's tutorial writes it (Wang et al. 2019)."""

    def __init__(self, in_width: int, out_width: int) -> None:
        super().__init__(aggr="max")
        self.mlp = nn.Sequential(nn.Linear(2 * in_width, out_width), nn.ReLU(), nn.Linear(out_width, out_width))

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=x)

    def message(self, x_i, x_j):
        return self.mlp(torch.cat([x_i, x_j - x_i], dim=1))


class MeshLayer(pyg.MessagePassing):
    """A layer of MeshGraphNet (Pfaff et al. 2021): new features of edges from both ends, and rows from these."""

    def __init__(self, width: int) -> None:
        super().__init__(aggr="add")
        self.edge, self.node = _mlp(3 * width, width), _mlp(2 * width, width)

    def forward(self, x, edge_index, edge_attr):
        ends = torch.cat([x[edge_index[1]], x[edge_index[0]], edge_attr], dim=1)
        edge_attr = edge_attr + self.edge(ends)
        messages = self.propagate(edge_index, size=(len(x), len(x)), edge_attr=edge_attr)
        return x + self.node(torch.cat([x, messages], dim=1)), edge_attr

    def message(self, edge_attr):
        return edge_attr


def _mlp(in_width: int, out_width: int) -> nn.Module:
    last = nn.Linear(out_width, out_width)
    return nn.Sequential(nn.Linear(in_width, out_width), nn.ReLU(), last, nn.LayerNorm(out_width))


class Mesh(nn.Module):
    """Encoder, processor, decoder."""

    def __init__(self, num_features: int, num_classes: int, num_layers: int = 3) -> None:
        super().__init__()
        self.first, self.encode = nn.Linear(num_features, WIDTH), _mlp(NUM_EDGE_FEATURES, WIDTH)
        self.layers = nn.ModuleList([MeshLayer(WIDTH) for _ in range(num_layers)])
        self.head = nn.Linear(WIDTH, num_classes)

    def forward(self, x, edge_index, edge_attr):
        x, edge_attr = F.relu(self.first(x)), self.encode(edge_attr)
        for layer in self.layers:
            x, edge_attr = layer(x, edge_index, edge_attr)
        return self.head(x)


class Two(nn.Module):
    """Two layers with a batch norm and dropout between."""

    def __init__(self, first: nn.Module, second: nn.Module, width: int = WIDTH) -> None:
        super().__init__()
        self.first, self.norm, self.second = first, nn.BatchNorm1d(width), second

    def forward(self, x, edge_index):
        x = F.dropout(F.relu(self.norm(self.first(x, edge_index))), 0.3, self.training)
        return self.second(x, edge_index)


class TwoFeatured(Two):
    """The same with features of edges."""

    def forward(self, x, edge_index, edge_attr):
        x = F.dropout(F.relu(self.norm(self.first(x, edge_index, edge_attr))), 0.3, self.training)
        return self.second(x, edge_index, edge_attr)


def mesh(num_features: int, num_classes: int) -> nn.Module:
    """A MeshGraphNet-like module."""
    return Mesh(num_features, num_classes)


def own(num_features: int, num_classes: int) -> nn.Module:
    """A custom `MessagePassing`."""
    return Two(EdgeConv(num_features, WIDTH), EdgeConv(WIDTH, num_classes))


def gatv2(num_features: int, num_classes: int) -> nn.Module:
    """Brody et al. 2022."""
    return Two(pyg.GATv2Conv(num_features, WIDTH // 4, heads=4), pyg.GATv2Conv(WIDTH, num_classes, heads=1))


def transformer(num_features: int, num_classes: int) -> nn.Module:
    """Shi et al. 2021, with features of edges."""
    first = pyg.TransformerConv(num_features, WIDTH // 4, heads=4, edge_dim=NUM_EDGE_FEATURES)
    return TwoFeatured(first, pyg.TransformerConv(WIDTH, num_classes, edge_dim=NUM_EDGE_FEATURES))


def pna(num_features: int, num_classes: int) -> nn.Module:
    """Corso et al. 2020; its histogram of degrees is given."""
    options = {"aggregators": ["mean", "max", "std"], "scalers": ["identity", "amplification"]}
    degrees = torch.tensor([2, 5, 9, 14, 20, 14, 9, 5, 2])
    first, second = (
        pyg.PNAConv(a, b, deg=degrees, **options) for a, b in ((num_features, WIDTH), (WIDTH, num_classes))
    )
    return Two(first, second)


def gine(num_features: int, num_classes: int) -> nn.Module:
    """Hu et al. 2020, with features of edges."""
    layers = (
        pyg.GINEConv(nn.Sequential(nn.Linear(a, WIDTH), nn.ReLU(), nn.Linear(WIDTH, b)), edge_dim=NUM_EDGE_FEATURES)
        for a, b in ((num_features, WIDTH), (WIDTH, num_classes))
    )
    return TwoFeatured(*layers)


def gen(num_features: int, num_classes: int) -> nn.Module:
    """Li et al. 2020, without the norm within a layer."""
    first, second = (pyg.GENConv(a, b, num_layers=1) for a, b in ((num_features, WIDTH), (WIDTH, num_classes)))
    return Two(first, second)


OWN: dict[str, Callable[[int, int], nn.Module]] = {
    "MeshGraphNet, features of edges that change": mesh,
    "a custom MessagePassing": own,
    "GATv2": gatv2,
    "TransformerConv, features of edges": transformer,
    "PNA": pna,
    "GINE, features of edges": gine,
    "GENConv": gen,
}
"""By name; each is `model = "FILE.py:FUNCTION"`."""
