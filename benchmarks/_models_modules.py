"""Modules of the `models` benchmark: the tuned baselines, others that people train, and six that must be refused."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric import nn as pyg
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from benchmarks._models_settings import Setting

Build = Callable[[int, int], nn.Module]


class Tuned(nn.Module):
    """As tunedGNN has it: an input Linear, layers with a Linear beside them, a norm, ReLU, dropout, a Linear head."""

    def __init__(self, num_features: int, num_classes: int, setting: Setting, width: int) -> None:
        super().__init__()
        self.dropout = setting.dropout
        self.first = nn.Linear(num_features, width) if setting.has_input else None
        widths = [width if setting.has_input else num_features, *[width] * setting.num_layers]
        pairs = list(itertools.pairwise(widths))
        self.convs = nn.ModuleList([_layer(setting.layer, *pair) for pair in pairs])
        self.skips = nn.ModuleList([nn.Linear(*pair) if setting.residual else nn.Identity() for pair in pairs])
        self.has_skips = setting.residual
        norms = {"layer": nn.LayerNorm, "batch": nn.BatchNorm1d, "": lambda _: nn.Identity()}
        self.norms = nn.ModuleList([norms[setting.norm](width) for _ in pairs])
        self.head = nn.Linear(width, num_classes)

    def forward(self, x, edge_index):
        if self.first is not None:
            x = F.dropout(self.first(x), self.dropout, training=self.training)
        for conv, skip, norm in zip(self.convs, self.skips, self.norms, strict=True):
            z = conv(x, edge_index)
            x = F.relu(norm(z + skip(x) if self.has_skips else z))
            x = F.dropout(x, self.dropout, training=self.training)
        return self.head(x)


def _layer(kind: str, in_width: int, out_width: int) -> nn.Module:
    if kind == "gat":
        return pyg.GATConv(in_width, out_width, heads=1, add_self_loops=False, bias=False)
    return (pyg.GCNConv if kind == "gcn" else pyg.SAGEConv)(in_width, out_width)


class Arxiv(nn.Module):
    """OGB's example for ogbn-arxiv."""

    def __init__(self, num_features: int, num_classes: int, width: int = 64) -> None:
        super().__init__()
        widths = [num_features, width, width, num_classes]
        self.convs = nn.ModuleList([pyg.GCNConv(a, b) for a, b in itertools.pairwise(widths)])
        self.bns = nn.ModuleList([nn.BatchNorm1d(width) for _ in range(2)])

    def forward(self, x, edge_index):
        for conv, bn in zip(self.convs[:-1], self.bns, strict=True):
            x = F.dropout(F.relu(bn(conv(x, edge_index))), p=0.5, training=self.training)
        return self.convs[-1](x, edge_index).log_softmax(dim=-1)


class Deep(nn.Module):
    """GCNII (Chen et al. 2020)."""

    def __init__(self, num_features: int, num_classes: int, num_layers: int = 64, width: int = 64) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(num_features, width), nn.Linear(width, num_classes)
        self.convs = nn.ModuleList([pyg.GCN2Conv(width, 0.1, 0.5, layer + 1) for layer in range(num_layers)])

    def forward(self, x, edge_index):
        x = x_0 = F.dropout(self.first(x), 0.6, self.training).relu()
        for conv in self.convs:
            x = conv(F.dropout(x, 0.6, self.training), x_0, edge_index).relu()
        return self.head(x)


class Light(nn.Module):
    """LightGCN (He et al. 2020) on features."""

    def __init__(self, num_features: int, num_classes: int, num_layers: int = 3, width: int = 64) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(num_features, width, bias=False), nn.Linear(width, num_classes)
        self.convs = nn.ModuleList([pyg.LGConv() for _ in range(num_layers)])
        self.register_buffer("alpha", torch.full((num_layers + 1,), 1 / (num_layers + 1)))

    def forward(self, x, edge_index):
        x = self.first(x)
        out = x * self.alpha[0]
        for number, conv in enumerate(self.convs):
            x = conv(x, edge_index)
            out = out + x * self.alpha[number + 1]
        return self.head(out)


MORE: dict[str, Build] = {
    "OGB's example for arxiv": Arxiv,
    "GCNII, 64 layers": Deep,
    "LightGCN": Light,
    "PyG's GCN, jumping knowledge": lambda f, c: pyg.GCN(f, 64, 3, c, dropout=0.2, norm="batch", jk="max"),
    "PyG's GIN, side by side": lambda f, c: pyg.GIN(f, 64, 3, c, dropout=0.2, jk="cat"),
}


class _ByDegrees(pyg.MessagePassing):
    """Weights from the degrees of both ends, which a worker does not know of its halo rows."""

    def forward(self, x, edge_index):
        edge_index, weight = gcn_norm(edge_index, num_nodes=len(x))
        return self.propagate(edge_index, x=x, weight=weight)

    def message(self, x_j, weight):
        return x_j * weight[:, None]


class _Refused(nn.Module):
    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.conv, self.head = pyg.GCNConv(num_features, 16), nn.Linear(16, num_classes)
        self.graph_norm, self.own = pyg.GraphNorm(16), _ByDegrees()


class Pooled(_Refused):
    """The mean of all rows."""

    def forward(self, x, edge_index):
        x = self.conv(x, edge_index)
        return self.head(x + x.mean(dim=0, keepdim=True))


class Attending(_Refused):
    """Attention over all vertices."""

    def forward(self, x, edge_index):
        x = self.conv(x, edge_index)
        return self.head(torch.softmax(x @ x.t(), dim=1) @ x)


class ByDegree(_Refused):
    """Degrees of the whole graph."""

    def forward(self, x, edge_index):
        return self.head(self.conv(x, edge_index) / edge_index[0].bincount().sqrt()[:, None])


class OverGraph(_Refused):
    """A norm over the whole graph."""

    def forward(self, x, edge_index):
        return self.head(self.graph_norm(self.conv(x, edge_index)))


class Branching(_Refused):
    """Other calls for other numbers."""

    def forward(self, x, edge_index):
        x = self.conv(x, edge_index)
        return self.head(-x if x.sum() > 0 else x)


class NormWithin(_Refused):
    """A layer of one's own that normalizes from the whole edge_index."""

    def forward(self, x, edge_index):
        return self.head(self.own(self.conv(x, edge_index), edge_index))


REFUSED: tuple[type[_Refused], ...] = (Pooled, Attending, ByDegree, OverGraph, Branching, NormWithin)
