"""PyG's layers on a graph whose edges have types, in the words of a forward program."""

from __future__ import annotations

from typing import Any

from torch_geometric import nn as pyg

from gnnplan.planner.models.known_layers import bias_of, only
from gnnplan.planner.models.vocabulary import NotSupportedError, Writer
from gnnplan.planner.relations import Over, relation

RELATIONAL = frozenset({pyg.RGCNConv, pyg.FastRGCNConv})
"""Layers on (x, edge_index, edge_type)."""


def rgcn(w: Writer, layer: Any, path: str, x: str, num_types: int) -> str:
    """R-GCN (Schlichtkrull et al. 2018, eq. 2): of each type of edges a mean, and a weight of its own.

    Args:
        num_types: that the graph's edges have.
    """
    only(layer, aggr=("mean", "add", "sum"), flow="source_to_target", num_blocks=None)
    if isinstance(layer.in_channels, tuple) or layer.weight.shape[1] != w.width(x):
        raise NotSupportedError(f"in_channels {layer.in_channels} are not the width of its rows, {w.width(x)}")
    if num_types > layer.num_relations:
        raise NotSupportedError(f"num_relations = {layer.num_relations}, and the graph's edges have {num_types} types")
    over: Over = "mean" if layer.aggr == "mean" else "sum"
    stacked = w.parameter(f"{path}.weight")
    if layer.num_bases is not None:  # eq. 3: every weight is a sum of a few
        stacked = w.emit("multiply", w.parameter(f"{path}.comp"), stacked, back=True, what="mix_bases")
    weights = w.unstacked(stacked, layer.weight.shape[1])
    root = None if layer.root is None else w.parameter(f"{path}.root")
    z = w.sum_of_relations(x, {relation(over, number): each for number, each in enumerate(weights)}, root)
    return w.bias(z, bias_of(layer, path))
