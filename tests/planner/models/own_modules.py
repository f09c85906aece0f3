"""Modules as people write them: every layer that is known, norms, skips, joins and activations."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F
from torch_geometric import nn as pyg

WIDTH = 6


class Skips(nn.Module):
    """As tunedGNN has its models: an input Linear, residual Linears, a norm, jumping knowledge as a sum, a head."""

    def __init__(self, num_features: int, num_classes: int, conv: Callable, norm: Callable, layers: int = 3) -> None:
        super().__init__()
        self.first = nn.Linear(num_features, WIDTH)
        self.convs = nn.ModuleList([conv(WIDTH, WIDTH) for _ in range(layers)])
        self.skips = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(layers)])
        self.norms = nn.ModuleList([norm(WIDTH) for _ in range(layers)])
        self.head = nn.Linear(WIDTH, num_classes)

    def forward(self, x, edge_index):
        x = F.dropout(self.first(x), p=0.2, training=self.training)
        total = 0
        for conv, skip, norm in zip(self.convs, self.skips, self.norms):
            x = F.relu(norm(conv(x, edge_index) + skip(x)))
            x = F.dropout(x, p=0.3, training=self.training)
            total = total + x
        return self.head(total)


class Plain(nn.Module):
    """One kind of layer after another, with an activation between."""

    def __init__(self, convs: list[nn.Module], act: Callable = F.relu) -> None:
        super().__init__()
        self.convs, self.act = nn.ModuleList(convs), act

    def forward(self, x, edge_index):
        for conv in self.convs[:-1]:
            x = self.act(conv(x, edge_index))
        return self.convs[-1](x, edge_index)


class Light(nn.Module):
    """LightGCN (He et al. 2020) on features: sums over edges alone, all depths weighted by constants."""

    def __init__(self, num_features: int, num_classes: int, layers: int = 3) -> None:
        super().__init__()
        self.first = nn.Linear(num_features, WIDTH, bias=False)
        self.convs = nn.ModuleList([pyg.LGConv() for _ in range(layers)])
        self.head = nn.Linear(WIDTH, num_classes)
        self.register_buffer("alpha", torch.full((layers + 1,), 1 / (layers + 1)))

    def forward(self, x, edge_index):
        x = self.first(x)
        out = x * self.alpha[0]
        for i, conv in enumerate(self.convs):
            x = conv(x, edge_index)
            out = out + x * self.alpha[i + 1]
        return self.head(out)


class Deep(nn.Module):
    """GCNII (Chen et al. 2020)."""

    def __init__(self, num_features: int, num_classes: int, layers: int = 4, *, shared: bool = True) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(num_features, WIDTH), nn.Linear(WIDTH, num_classes)
        self.convs = nn.ModuleList(
            [pyg.GCN2Conv(WIDTH, 0.1, 0.5, layer + 1, shared_weights=shared) for layer in range(layers)]
        )

    def forward(self, x, edge_index):
        x = x_0 = F.dropout(self.first(x), 0.2, self.training).relu()
        for conv in self.convs:
            x = conv(F.dropout(x, 0.2, self.training), x_0, edge_index).relu()
        return self.head(x)


class Arxiv(nn.Module):
    """OGB's example for ogbn-arxiv: batch norms between GCN or SAGE layers, and log_softmax at the end."""

    def __init__(self, num_features: int, num_classes: int, conv: Callable = pyg.GCNConv) -> None:
        super().__init__()
        widths = [num_features, WIDTH, WIDTH, num_classes]
        self.convs = nn.ModuleList([conv(a, b) for a, b in itertools.pairwise(widths)])
        self.bns = nn.ModuleList([nn.BatchNorm1d(WIDTH) for _ in range(2)])

    def forward(self, x, edge_index):
        for conv, bn in zip(self.convs[:-1], self.bns):
            x = F.dropout(F.relu(bn(conv(x, edge_index))), p=0.5, training=self.training)
        return self.convs[-1](x, edge_index).log_softmax(dim=-1)


class Predict(nn.Module):
    """Rows first, then sums over edges (Gasteiger et al. 2019)."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.rows = nn.Sequential(nn.Linear(num_features, WIDTH), nn.GELU(), nn.Linear(WIDTH, num_classes))
        self.prop = pyg.APPNP(K=3, alpha=0.2)

    def forward(self, x, edge_index):
        return self.prop(self.rows(x), edge_index)


class Residual(nn.Module):
    """All that is by column between sums: a residual to the first rows, dropout, a function, a gate, a maximum."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(num_features, WIDTH), nn.Linear(WIDTH, num_classes)
        self.prop, self.greater = pyg.LGConv(), pyg.JumpingKnowledge("max")

    def forward(self, x, edge_index):
        x = x_0 = self.first(x)
        x = F.dropout(self.prop(x, edge_index), 0.3, self.training)
        x = torch.tanh(self.prop(x, edge_index)) * 0.5 + x_0
        x = self.prop(self.greater([x, x_0]), edge_index)
        x = self.prop(x * x_0, edge_index) - x
        return self.head(x)


class Gated(nn.Module):
    """A branch of its own weighs each layer, and both ways meet at several levels."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.conv, self.second = pyg.SAGEConv(num_features, WIDTH), pyg.GraphConv(WIDTH, WIDTH)
        self.gate = nn.Linear(num_features, WIDTH)
        self.head = nn.Linear(2 * WIDTH, num_classes)

    def forward(self, x, edge_index):
        gate = torch.sigmoid(self.gate(x))
        once = torch.tanh(self.conv(x, edge_index)) * gate
        twice = F.silu(self.second(once, edge_index)) - 0.5 * once
        return self.head(torch.cat([once, twice / 2], dim=1))


def _gat(**options):
    return lambda f, c: Plain(
        [pyg.GATConv(f, 3, heads=2, **options), pyg.GATConv(6, c, heads=2, concat=False, **options)]
    )


class Overwritten(nn.Module):
    """An activation in place, and the value that it overwrote once more, by another name."""

    def __init__(self, num_features: int, num_classes: int, act: nn.Module | None = None) -> None:
        super().__init__()
        self.first, self.second = pyg.GCNConv(num_features, WIDTH), pyg.GCNConv(WIDTH, WIDTH)
        self.same, self.act, self.head = nn.Identity(), act, nn.Linear(WIDTH, num_classes)

    def forward(self, x, edge_index):
        first = self.first(x, edge_index)
        also = self.same(first)
        second = self.second(self.act(first) if self.act else F.leaky_relu(first, 0.3, True), edge_index)
        return self.head(second + also)


class Summed(nn.Module):
    """Sums, differences, products and quotients in place, of what has another name too; and torch's own sum."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.first, self.second = pyg.GCNConv(num_features, WIDTH), pyg.GCNConv(WIDTH, WIDTH)
        self.lin, self.head = nn.Linear(num_features, WIDTH), nn.Linear(2 * WIDTH, num_classes)

    def forward(self, x, edge_index):
        h = self.first(x, edge_index)
        first = h
        h += self.lin(x)
        h *= 0.5
        second = self.second(torch.tanh(h), edge_index)
        h -= second
        h /= 2
        return self.head(torch.cat([torch.add(h.relu(), second, alpha=0.3), first - second], dim=1))


class Accumulated(nn.Module):
    """Sums in place of what begins with the numbers of another tensor, and is another one all the same."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.lin, self.head = nn.Linear(num_features, WIDTH), nn.Linear(2 * WIDTH, num_classes)
        self.convs = nn.ModuleList([pyg.GCNConv(WIDTH, WIDTH) for _ in range(2)])

    def forward(self, x, edge_index):
        h = first = torch.tanh(self.lin(x))
        total, scaled = 0, 1.0 * h
        for conv in self.convs:
            total += h
            scaled += conv(h, edge_index)
            h = torch.tanh(conv(h, edge_index)) + first
        return self.head(torch.cat([total + h, scaled - first], dim=1))


class Twice(nn.Module):
    """A network of sums, called again."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.lin, self.head = nn.Linear(num_features, WIDTH), nn.Linear(WIDTH, num_classes)
        self.conv = pyg.GINConv(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()))

    def forward(self, x, edge_index):
        x = self.lin(x)
        for _ in range(2):
            x = self.conv(x, edge_index)
        return self.head(x)


class Shared(nn.Module):
    """One layer and one norm, each under two names."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.first, conv, norm = nn.Linear(num_features, WIDTH), pyg.GCNConv(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH)
        self.convs, self.norms = nn.ModuleList([conv] * 2), nn.ModuleList([norm] * 2)
        self.head = nn.Linear(WIDTH, num_classes)

    def forward(self, x, edge_index):
        x = self.first(x)
        for conv in self.convs:
            x = conv(x, edge_index).relu()
        return self.head(self.norms[0](x))


class SharedNetwork(nn.Module):
    """A network with a norm, in two layers."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.lin, self.head = nn.Linear(num_features, WIDTH), nn.Linear(WIDTH, num_classes)
        network = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.Tanh())
        self.convs = nn.ModuleList(pyg.GINConv(network) for _ in range(2))

    def forward(self, x, edge_index):
        x = self.lin(x)
        for conv in self.convs:
            x = conv(x, edge_index)
        return self.head(x)


def _two(conv: Callable, **options):
    return lambda f, c: Plain([conv(f, WIDTH, **options), conv(WIDTH, c, **options)])


def _mlp(a: int, b: int) -> nn.Module:
    return nn.Sequential(nn.Linear(a, WIDTH), nn.BatchNorm1d(WIDTH), nn.LeakyReLU(0.2), nn.Linear(WIDTH, b))


def _attending(a: int, b: int) -> nn.Module:
    return pyg.GATConv(a, b, add_self_loops=False, bias=False)


MODULES: dict[str, Callable[[int, int], nn.Module]] = {
    "skips, gcn, layer norm": lambda f, c: Skips(f, c, pyg.GCNConv, nn.LayerNorm),
    "skips, sage, batch norm": lambda f, c: Skips(f, c, pyg.SAGEConv, nn.BatchNorm1d),
    "skips, gat, batch norm": lambda f, c: Skips(f, c, _attending, pyg.BatchNorm),
    "skips, gat, row norm of pyg": lambda f, c: Skips(f, c, _attending, lambda n: pyg.LayerNorm(n, mode="node")),
    "skips, gcn, no norm": lambda f, c: Skips(f, c, pyg.GCNConv, lambda n: nn.Identity()),
    "norms without weights": lambda f, c: Skips(f, c, pyg.GCNConv, lambda n: nn.BatchNorm1d(n, affine=False)),
    "norms without memory": lambda f, c: Skips(
        f, c, pyg.GCNConv, lambda n: nn.BatchNorm1d(n, track_running_stats=False)
    ),
    "sage, sums": _two(pyg.SAGEConv, aggr="sum"),
    "sage, projected": _two(pyg.SAGEConv, project=True, root_weight=False),
    "sage, projected, and its own row": _two(pyg.SAGEConv, project=True),
    "tag without hops": _two(pyg.TAGConv, K=0),
    "sgc without hops": _two(pyg.SGConv, K=0),
    "in place, a module": lambda f, c: Overwritten(f, c, nn.ReLU(inplace=True)),
    "in place, a function": Overwritten,
    "in place, arithmetic": Summed,
    "in place, the same numbers": Accumulated,
    "gin, twice": Twice,
    "shared layers": Shared,
    "gin, a shared network": SharedNetwork,
    "gcn without self loops": _two(pyg.GCNConv, add_self_loops=False, bias=False),
    "gcn without weights of edges": _two(pyg.GCNConv, normalize=False),
    "gat with self loops": _gat(),
    "gat with skips": _gat(add_self_loops=False, residual=True),
    "gin": lambda f, c: Plain([pyg.GINConv(_mlp(f, WIDTH)), pyg.GINConv(_mlp(WIDTH, c), eps=0.3)], F.elu),
    "tag": _two(pyg.TAGConv, K=2),
    "sgc": lambda f, c: Plain([pyg.SGConv(f, c, K=2, cached=True)]),
    "appnp": Predict,
    "gcnii": Deep,
    "gcnii, two weights": lambda f, c: Deep(f, c, shared=False),
    "lightgcn": Light,
    "residual": Residual,
    "arxiv, gcn": Arxiv,
    "arxiv, sage": lambda f, c: Arxiv(f, c, pyg.SAGEConv),
    "gated": Gated,
    "pyg's gcn, jumping": lambda f, c: pyg.GCN(f, WIDTH, 3, c, dropout=0.2, norm="batch", jk="max", act="gelu"),
    "pyg's sage, side by side": lambda f, c: pyg.GraphSAGE(f, WIDTH, 3, c, dropout=0.2, jk="cat"),
    "pyg's gin": lambda f, c: pyg.GIN(f, WIDTH, 2, c, norm="layer", norm_kwargs={"mode": "node"}),
}
