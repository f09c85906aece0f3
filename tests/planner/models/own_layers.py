"""Layers of somebody's own, and layers of PyG's that have no equations here: all of them run their own code."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric import nn as pyg

from tests.planner.models.own_modules import WIDTH, Plain


class EdgeConv(pyg.MessagePassing):
    """As PyG's tutorial writes it: the greatest of what a network makes of both ends of every edge."""

    def __init__(self, in_width: int, out_width: int) -> None:
        super().__init__(aggr="max")
        self.mlp = nn.Sequential(nn.Linear(2 * in_width, WIDTH), nn.ReLU(), nn.Linear(WIDTH, out_width))

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=x)

    def message(self, x_i, x_j):
        return self.mlp(torch.cat([x_i, x_j - x_i], dim=1))


class Steep(pyg.MessagePassing):
    """A parameter that is a number, one that is a vector, and loops that it adds itself."""

    def __init__(self, in_width: int, out_width: int) -> None:
        super().__init__(aggr="mean")
        self.lin, self.slope = nn.Linear(in_width, out_width, bias=False), nn.Parameter(torch.tensor(0.7))
        self.shift = nn.Parameter(torch.zeros(out_width))

    def forward(self, x, edge_index):
        loops = torch.arange(len(x)).repeat(2, 1)
        kept = edge_index[:, edge_index[0] != edge_index[1]]
        return self.propagate(torch.cat([kept, loops], dim=1), x=self.lin(x)) * self.slope + self.shift


class FromStart(pyg.MessagePassing):
    """The rows at the start again in every layer, which are of another level."""

    def __init__(self, width: int) -> None:
        super().__init__(aggr="mean")
        self.gate = nn.Linear(2 * width, width)

    def forward(self, x, start, edge_index, scale=1.0):
        mean = self.propagate(edge_index, x=x)
        return torch.sigmoid(self.gate(torch.cat([mean, start], dim=1))) * (mean - start) * scale + x


class Restarted(nn.Module):
    """A mixture of known layers and `FromStart`, with what else people put between."""

    def __init__(self, num_features: int, num_classes: int, layers: int = 2) -> None:
        super().__init__()
        self.first = pyg.SAGEConv(num_features, WIDTH)
        self.convs = nn.ModuleList([FromStart(WIDTH) for _ in range(layers)])
        self.norms = nn.ModuleList([nn.BatchNorm1d(WIDTH) for _ in range(layers)])
        self.head = nn.Linear(WIDTH, num_classes)

    def forward(self, x, edge_index):
        x = start = F.relu(self.first(x, edge_index))
        for conv, norm in zip(self.convs, self.norms):
            x = norm(conv(F.dropout(x, 0.2, self.training), start, edge_index, scale=0.5))
        return self.head(x)


class Again(nn.Module):
    """One layer that is called twice, with other numbers, and first with the same rows twice."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.first, self.conv = pyg.SAGEConv(num_features, WIDTH), FromStart(WIDTH)
        self.head = nn.Linear(WIDTH, num_classes)

    def forward(self, x, edge_index):
        x = start = F.relu(self.first(x, edge_index))
        for scale in (1.0, 0.5):
            x = self.conv(x, start, edge_index, scale)
        return self.head(x)


def _two(conv: Callable, **options):
    return lambda f, c: Plain([conv(f, WIDTH, **options), conv(WIDTH, c, **options)], torch.tanh)


_DEG = torch.tensor([1, 4, 9, 5])
_PNA = {
    "aggregators": ["mean", "max", "std"],
    "scalers": ["identity", "attenuation"],
    "deg": _DEG,
}

LAYERS: dict[str, Callable[[int, int], nn.Module]] = {
    "own, greatest": _two(EdgeConv),
    "own, loops and a number": _two(Steep),
    "own, from the start": Restarted,
    "own, called again": Again,
    "gatv2": _two(pyg.GATv2Conv),
    "gatv2, heads": lambda f, c: Plain([pyg.GATv2Conv(f, 3, heads=2), pyg.GATv2Conv(6, c, heads=2, concat=False)]),
    "transformer": _two(pyg.TransformerConv, beta=True),
    "pna": _two(pyg.PNAConv, **_PNA),
    "gen": _two(pyg.GENConv, num_layers=1, learn_t=True),
    "sage, greatest": _two(pyg.SAGEConv, aggr="max"),
    "sage, unit rows": _two(pyg.SAGEConv, normalize=True),
    "gat, another slope": _two(pyg.GATConv, negative_slope=0.1),
    "gin, trained": lambda f, c: Plain([pyg.GINConv(nn.Linear(f, c), train_eps=True)]),
    "gated": _two(pyg.ResGatedGraphConv),
}
