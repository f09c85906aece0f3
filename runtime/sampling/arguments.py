"""What a loader is asked for, checked: one `UserError` in one line on the first fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import index
from typing import cast

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from gnnplan.profiles.errors import UserError
from gnnplan.profiles.kernels.csc import MAX_VERTICES, Csc
from gnnplan.profiles.kernels.sampling_variants import SubgraphType, Variant

_SUBGRAPH_TYPES = ("directional", "bidirectional", "induced")


def check_fan_outs(num_neighbors: Sequence[int]) -> list[int]:
    """The fan-outs, hop by hop; -1 takes all neighbours."""
    try:
        fan_outs = None if isinstance(num_neighbors, Mapping) else [index(fan_out) for fan_out in num_neighbors]
    except TypeError:  # no sequence, or not of integers
        fan_outs = None
    if fan_outs is None:
        found = " ".join(repr(num_neighbors).split())
        raise UserError(f"num_neighbors must be whole numbers, one a hop, such as [10, 5], found {found}")
    if not fan_outs:
        raise UserError("num_neighbors is empty; give the fan-out of one hop at least, such as [10, 5]")
    for fan_out in fan_outs:
        if fan_out == 0 or not -1 <= fan_out <= MAX_VERTICES:
            raise UserError(
                f"num_neighbors holds {fan_out}; give 1 to {MAX_VERTICES} neighbours a hop, or -1 for all of them"
            )
    return fan_outs


def check_at_least(name: str, value: int, least: int) -> int:
    """The value, where it is a whole number and not below `least`."""
    try:
        value = index(value)
    except TypeError:
        raise UserError(f"{name} is {value!r}; give a whole number") from None
    if value < least:
        raise UserError(f"{name} is {value}; give at least {least}")
    return value


def check_seconds(name: str, value: float) -> float:
    """The value, where it is a time or 0 for none."""
    if not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise UserError(f"{name} is {value!r}; give seconds, or 0 for no limit")
    return float(value)


def variant_of(
    data: Data, graph: Csc, *, replace: bool, disjoint: bool, subgraph_type: object, weight_attr: str | None
) -> Variant:
    """How a loader's neighbours are drawn, by PyG's keywords."""
    name = str(getattr(subgraph_type, "value", subgraph_type))
    if name not in _SUBGRAPH_TYPES:
        raise UserError(f"subgraph_type is {name!r}; give one of {', '.join(_SUBGRAPH_TYPES)}")
    weights = None if weight_attr is None else _weights(data, graph, weight_attr)
    return Variant(bool(replace), weights, bool(disjoint), cast(SubgraphType, name))


def _weights(data: Data, graph: Csc, name: str) -> np.ndarray:
    """float64 [E] by position, where they are numbers from 0 on and no vertex with neighbours has only zeros."""
    given = data._store.get(name)
    if given is None:
        raise UserError(f"weight_attr is {name!r}, and the graph has no such attribute; name one with an entry an edge")
    weights = torch.as_tensor(given).detach().cpu().to(torch.float64).numpy()
    if weights.shape != (len(graph.indices),):
        raise UserError(f"{name} must hold one weight an edge, [{len(graph.indices)}], found {list(weights.shape)}")
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise UserError(f"{name} holds a weight that is negative or not finite")
    weights = weights if graph.edge_ids is None else weights[graph.edge_ids]
    sums = np.concatenate([[0.0], np.cumsum(weights > 0)])
    empty = (np.diff(graph.indptr) > 0) & (np.diff(sums[graph.indptr]) == 0)
    if empty.any():
        raise UserError(f"{name}: all edges into vertex {int(empty.argmax())} have weight 0; give one of them more")
    return weights


def seeds_beside(seeds: tuple[Tensor, Tensor], input_id: Tensor | None) -> tuple[Tensor, Tensor]:
    """The seeds with the names that are given for them, where they are."""
    if input_id is None:
        return seeds
    names = torch.as_tensor(input_id).cpu().to(torch.int64)
    if names.shape != seeds[0].shape:
        raise UserError(f"input_id must name each of the {len(seeds[0])} seeds, found {list(names.shape)}")
    return seeds[0], names


def check_edges(data: Data) -> Tensor:
    """The graph's `edge_index`, integer [2, E] with vertices in 0..N - 1, in host memory."""
    if not isinstance(data, Data):
        several = " (several kinds of vertices or edges)" if isinstance(data, HeteroData) else ""
        raise UserError(
            f"NeighborLoader samples one homogeneous torch_geometric Data, not a {type(data).__name__}{several}; "
            f"keep PyG's loader for it"
        )
    edge_index = data._store.get("edge_index")
    if edge_index is None:
        raise UserError("the graph has no edge_index; sampling needs it as integers [2, E]")
    if edge_index.dim() != 2 or edge_index.shape[0] != 2 or edge_index.dtype not in (torch.int32, torch.int64):
        found = f"{edge_index.dtype} {list(edge_index.shape)}"
        raise UserError(f"edge_index must be int64 or int32 [2, E], found {found}")
    check_vertices(data.num_nodes)
    if edge_index.numel():
        check_range("edge_index", edge_index, data.num_nodes)
    return edge_index.cpu()


def check_vertices(num_nodes: int) -> None:
    """`UserError` where sampling, which keeps vertices as int32, cannot take as many."""
    if num_nodes > MAX_VERTICES:
        raise UserError(f"the graph has {num_nodes} vertices; sampling takes up to {MAX_VERTICES}")


def seed_vertices(input_nodes: Tensor | Sequence[int] | None, num_nodes: int) -> tuple[Tensor, Tensor]:
    """The seeds and what `input_id` calls them, both int64 [S].

    As in PyG a seed is called by its position in `input_nodes`, and where that is a mask by the vertex.
    """
    if input_nodes is None:
        nodes = ids = torch.arange(num_nodes)
    else:
        given = torch.as_tensor(input_nodes).cpu()
        _check_seed_type(given, num_nodes)
        is_mask = given.dtype == torch.bool
        nodes = given.nonzero().view(-1) if is_mask else given.to(torch.int64)
        ids = nodes if is_mask else torch.arange(len(nodes))
    if not len(nodes):
        raise UserError("input_nodes names no vertex; give one seed at least")
    check_range("input_nodes", nodes, num_nodes)
    return nodes, ids


def _check_seed_type(given: Tensor, num_nodes: int) -> None:
    if given.dim() != 1 or (given.numel() and (given.is_floating_point() or given.is_complex())):
        raise UserError(f"input_nodes must be vertex ids [S] or a mask [N], found {given.dtype} {list(given.shape)}")
    if given.dtype == torch.bool and len(given) != num_nodes:
        raise UserError(f"input_nodes is a mask of {len(given)} vertices, the graph has {num_nodes}")


def check_range(name: str, vertices: Tensor, num_nodes: int) -> None:
    """`UserError` where some of these vertices, of which there is one at least, are not in the graph."""
    low, high = int(vertices.min()), int(vertices.max())
    if low < 0 or high >= num_nodes:
        raise UserError(f"{name} holds vertex {low if low < 0 else high}, outside 0..{num_nodes - 1}")
