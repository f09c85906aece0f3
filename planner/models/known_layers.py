"""PyG's layers in the words of a forward program, each by its equations and its own names of parameters."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torch import nn
from torch_geometric import nn as pyg

from gnnplan.planner.adjacency import Aggregation
from gnnplan.planner.models.vocabulary import NeverSupportedError as NeverSupportedError
from gnnplan.planner.models.vocabulary import NotSupportedError as NotSupportedError
from gnnplan.planner.models.vocabulary import Writer

Rows = Callable[[nn.Module, str, str], str]
"""Writes a module that works row by row: the module, its path, and the value it reads."""
Layer = Callable[[Writer, Any, str, str, Rows], str]


def only(layer: nn.Module, **allowed: Any) -> None:
    """Raises `NotSupportedError` where an option is not as it must be."""
    for name, value in allowed.items():
        choices = value if isinstance(value, tuple) else (value,)
        found = getattr(layer, name, choices[0])
        if found not in choices:
            raise NotSupportedError(f"{name} = {found!r} is not supported, only {' or '.join(map(repr, choices))}")


def _sums(layer: nn.Module, aggr: tuple[str, ...] = ("add", "sum")) -> None:
    only(layer, aggr=aggr, flow="source_to_target")


def _normalized(layer: Any) -> Aggregation:
    """The aggregation of layers that normalize with degrees as GCN does."""
    _sums(layer)
    only(layer, normalize=True, improved=False)
    return "gcn" if layer.add_self_loops else "tagcn"


def bias_of(layer: nn.Module, path: str, name: str = "bias") -> str | None:
    """The name of a layer's bias, if it has one."""
    has_one: Any = layer
    for part in name.split("."):
        has_one = getattr(has_one, part, None)
    return None if has_one is None else f"{path}.{name}"


def _gcn(w: Writer, layer: Any, path: str, x: str, rows: Rows) -> str:
    sums_only = not layer.normalize and not layer.add_self_loops
    if sums_only:
        _sums(layer)
    aggregation: Aggregation = "sum" if sums_only else _normalized(layer)
    return w.bias(w.filter(x, {1: f"{path}.lin.weight"}, aggregation), bias_of(layer, path))


def _sage(w: Writer, layer: Any, path: str, x: str, rows: Rows) -> str:
    _sums(layer, ("mean", "add", "sum"))
    only(layer, normalize=False)
    weights, root = {1: f"{path}.lin_l.weight"}, f"{path}.lin_r.weight"
    aggregation: Aggregation = "sage" if layer.aggr == "mean" else "sum"
    if layer.project:  # of the neighbours alone
        projected = w.function(rows(layer.lin, f"{path}.lin", x), "relu")
        z = w.filter(projected, weights, aggregation)
        z = w.add(z, w.emit("multiply", x, w.parameter(root), what="root")) if layer.root_weight else z
    else:
        z = w.filter(x, weights | ({0: root} if layer.root_weight else {}), aggregation)
    return w.bias(z, bias_of(layer, path, "lin_l.bias"))


def _graph(w: Writer, layer: Any, path: str, x: str, rows: Rows) -> str:
    _sums(layer, ("add", "sum", "mean"))
    weights = {0: f"{path}.lin_root.weight", 1: f"{path}.lin_rel.weight"}
    z = w.filter(x, weights, "sage" if layer.aggr == "mean" else "sum")
    return w.bias(z, bias_of(layer, path, "lin_rel.bias"))


def _gin(w: Writer, layer: Any, path: str, x: str, rows: Rows) -> str:
    _sums(layer)
    if layer.eps.requires_grad:
        raise NotSupportedError("train_eps = True is not supported")
    eps = float(layer.eps)
    z = w.aggregate(x, "sum" if eps else "gin")
    if eps:
        z = w.add(z, x, (1, 1 + eps))
    return rows(layer.nn, f"{path}.nn", z)


def _tag(w: Writer, layer: Any, path: str, x: str, rows: Rows) -> str:
    _sums(layer)
    weights = {hop: f"{path}.lins.{hop}.weight" for hop in range(layer.K + 1)}
    aggregation: Aggregation = "tagcn" if layer.normalize else "sum"
    if not layer.K:
        return w.bias(rows(layer.lins[0], f"{path}.lins.0", x), bias_of(layer, path))
    return w.bias(w.filter(x, weights, aggregation), bias_of(layer, path))


def _sgc(w: Writer, layer: Any, path: str, x: str, rows: Rows) -> str:
    if layer.cached and w.emitter.cycle.values[x].role != "input":
        raise NeverSupportedError("cached = True keeps the rows of the first call; it is known of the features alone")
    aggregation = _normalized(layer)
    if not layer.K:
        return rows(layer.lin, f"{path}.lin", x)
    z = w.filter(x, {layer.K: f"{path}.lin.weight"}, aggregation)
    return w.bias(z, bias_of(layer, path, "lin.bias"))


def _appnp(w: Writer, layer: Any, path: str, x: str, rows: Rows) -> str:
    aggregation, z = _normalized(layer), x
    if w.training:
        only(layer, dropout=(0, 0.0))
    for _ in range(layer.K):
        z = w.add(w.aggregate(z, aggregation), x, (1 - layer.alpha, layer.alpha))
    return z


def _light(w: Writer, layer: Any, path: str, x: str, rows: Rows) -> str:
    _sums(layer)
    return w.aggregate(x, "tagcn" if layer.normalize else "sum")


def _gat(w: Writer, layer: Any, path: str, x: str, rows: Rows) -> str:
    _sums(layer)
    only(layer, edge_dim=None, negative_slope=0.2)
    if w.training:
        only(layer, dropout=(0, 0.0))
    if layer.lin is None:
        raise NotSupportedError("in_channels as a pair is not supported")
    aggregation: Aggregation = "gat" if layer.add_self_loops else "edges"
    vectors = f"{path}.att_src", f"{path}.att_dst"
    z = w.attention(x, f"{path}.lin.weight", vectors, layer.heads, aggregation)
    if not layer.concat and layer.heads > 1:
        z = w.emit("average_heads", z, heads=layer.heads)
    if getattr(layer, "res", None) is not None:
        z = w.add(z, w.linear(x, f"{path}.res.weight"))
    return w.bias(z, bias_of(layer, path))


def gcn2(w: Writer, layer: Any, path: str, x: str, x_0: str) -> str:
    """GCNII (Chen et al. 2020, eq. 5): the initial rows again in every layer, and a weight near the identity."""
    aggregation = _normalized(layer)
    beta = layer.beta
    z = w.scale(w.aggregate(x, aggregation), 1 - layer.alpha)
    start = w.scale(x_0, layer.alpha)
    if layer.weight2 is None:
        return _near_identity(w, w.add(z, start), f"{path}.weight1", beta)
    first = _near_identity(w, z, f"{path}.weight1", beta)
    return w.add(first, _near_identity(w, start, f"{path}.weight2", beta))


def _near_identity(w: Writer, x: str, weight: str, beta: float) -> str:
    """(1 - beta) x + beta x W; W is [input width, output width]."""
    product = w.emit("multiply", x, w.parameter(weight), back=True)
    return product if math.isclose(beta, 1.0) else w.add(x, product, (1 - beta, beta), what="mix")


WEIGHTED = frozenset({pyg.GCNConv, pyg.GraphConv, pyg.TAGConv, pyg.SGConv, pyg.APPNP, pyg.LGConv})
"""Of `LAYERS` those whose sums may have weights of edges, as (x, edge_index, edge_weight)."""
LAYERS: dict[type, Layer] = {
    pyg.GCNConv: _gcn,
    pyg.SAGEConv: _sage,
    pyg.GraphConv: _graph,
    pyg.GINConv: _gin,
    pyg.TAGConv: _tag,
    pyg.SGConv: _sgc,
    pyg.APPNP: _appnp,
    pyg.LGConv: _light,
    pyg.GATConv: _gat,
}
"""Layers on (x, edge_index). A class of one's own that inherits from one of these is not that one."""
