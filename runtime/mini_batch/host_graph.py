"""The graph that mini-batches are made of, once in the memory of a host, however many workers it has."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist
from torch_geometric.data import Data

from gnnplan.planner.graph import Graph
from gnnplan.planner.graph_spec import GraphSpec
from gnnplan.planner.loaders import load_graph
from gnnplan.planner.plan import GraphFacts
from gnnplan.profiles.kernels.csc import Csc, csc_from_edges
from gnnplan.runtime.reference import dense_features
from gnnplan.runtime.sampling.arguments import check_vertices
from gnnplan.runtime.shared_memory import make_memory, share_memory

MEMORY_NAME = "gnnplan-graph"
"""As which it shows in /proc/PID/maps."""
_WHAT = "the graph that this host's workers share"
_PAGE_BYTES = 4096  # arrays share none: each is page-locked by itself


@dataclass(frozen=True)
class HostGraph:
    """A graph as sampling reads it, and its splits.

    Shapes: N vertices, E edges, F features, C classes.

    Args:
        csc: its edges by target.
        x: float32 [N, F]; y: int64 [N], or float32 [N, C].
        train_mask, val_mask, test_mask: bool [N].
    """

    csc: Csc
    x: np.ndarray
    y: np.ndarray
    train_mask: np.ndarray
    val_mask: np.ndarray
    test_mask: np.ndarray
    facts: GraphFacts

    @property
    def num_classes(self) -> int:
        """C."""
        return self.facts.num_classes

    @property
    def data(self) -> Data:
        """The attributes whose rows batches hold; it has no edges of its own."""
        return Data(x=torch.from_numpy(self.x), y=torch.from_numpy(self.y), num_nodes=len(self.x))


def load_host_graph(
    spec: GraphSpec, ranks: Sequence[int] = (0,), rank: int = 0, group: dist.ProcessGroup | None = None
) -> HostGraph:
    """The graph, loaded by the first worker of the host and shared with the others; all of them must call it.

    Args:
        ranks: of the host's workers, ascending; `rank` is one of them.
        group: theirs over the CPU, whose timeout is the longest wait for the first to load it; None where one is alone.

    Raises:
        UserError: what is wrong with the graph's source; or the host has no memory for it.
    """
    loaded = _loaded(load_graph(spec)) if rank == ranks[0] else None
    if group is None:
        assert loaded is not None
        return _graph_of(*loaded)
    return _graph_of(*_shared(loaded, ranks, group))


def _loaded(graph: Graph) -> tuple[dict[str, np.ndarray], str]:
    """Its arrays by name, and the facts of it as JSON."""
    check_vertices(graph.num_nodes)
    csc = csc_from_edges(graph.edge_index, graph.num_nodes)
    arrays = {"indptr": csc.indptr, "indices": csc.indices, "x": dense_features(graph), "y": graph.y}
    arrays |= {name: getattr(graph, name) for name in ("train_mask", "val_mask", "test_mask")}
    if csc.edge_ids is not None:
        arrays["edge_ids"] = csc.edge_ids
    return arrays, GraphFacts.of(graph).model_dump_json()


def _graph_of(arrays: dict[str, np.ndarray], facts: str) -> HostGraph:
    csc = Csc(arrays.pop("indptr"), arrays.pop("indices"), arrays.pop("edge_ids", None))
    return HostGraph(csc=csc, facts=GraphFacts.model_validate_json(facts), **arrays)


def _shared(
    loaded: tuple[dict[str, np.ndarray], str] | None, ranks: Sequence[int], group: dist.ProcessGroup
) -> tuple[dict[str, np.ndarray], str]:
    """The same in memory that all workers of the host have; the first one's own is let go array by array."""
    arrays, facts = loaded or ({}, "")
    described = [[name, array.dtype.str, list(array.shape)] for name, array in arrays.items()]
    described, facts = json.loads(_told(json.dumps([described, facts]), ranks[0], group))
    sizes = [np.dtype(kind).itemsize * math.prod(shape) for _, kind, shape in described]
    offsets = np.cumsum([0, *(-(-size // _PAGE_BYTES) * _PAGE_BYTES for size in sizes)]).tolist()
    num_bytes = max(offsets[-1], _PAGE_BYTES)
    descriptor = make_memory(num_bytes, _WHAT, MEMORY_NAME) if loaded else None
    memory = share_memory(descriptor, num_bytes, ranks, group)
    places = {name: np.ndarray(shape, kind, memory, offset) for (name, kind, shape), offset in zip(described, offsets)}
    for name in list(arrays):
        np.copyto(places[name], arrays.pop(name))
    dist.barrier(group)
    return places, facts


def _told(text: str, first: int, group: dist.ProcessGroup) -> str:
    """The first worker's text, in all of the group."""
    encoded = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)
    length = torch.tensor([len(encoded)])
    dist.broadcast(length, first, group=group)
    received = encoded if dist.get_rank() == first else torch.empty(int(length), dtype=torch.uint8)
    dist.broadcast(received, first, group=group)
    return received.numpy().tobytes().decode()
