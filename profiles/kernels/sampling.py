"""Neighbour sampling on the CPU, where every draw is a pure function of what it is for.

Draw number i of vertex v in a hop is the i-th output of the splitmix64 stream that starts at output
v of the stream of the hop's key, and the key comes from (seed, epoch, batch, hop). So a vertex draws
the same neighbours whatever else is in the frontier and whoever samples it, and another device that
repeats the integer arithmetic gets the same edges.

Semantics are those of PyG's `NeighborLoader` with `replace=False` and directional subgraphs: hop h
samples in-neighbours of the vertices that were new in hop h - 1 (the seeds at first).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numba import njit
from torch import Tensor

from gnnplan.profiles.kernels.counter import chained_key
from gnnplan.profiles.kernels.csc import Csc
from gnnplan.profiles.kernels.draws import bounded, splitmix_at
from gnnplan.profiles.kernels.relabel import LocalIds

_DOMAIN = 0x6E65696768626F72  # sets these keys apart from those of dropout
ALL = -1  # the fan-out that takes every neighbour

Empty = Callable[[Sequence[int], torch.dtype], Tensor]


def hop_key(seed: int, epoch: int, batch: int, hop: int) -> int:
    """The 64-bit key of one hop of one batch."""
    return chained_key(_DOMAIN, seed, epoch, batch, hop)


@dataclass(frozen=True)
class Sample:
    """One batch: n vertices and e edges, numbered from 0 in the order they were found.

    Args:
        n_id: int64 [n], the vertices; the seeds first.
        edge_index: int64 [2, e], local ids; row 0 the neighbour, row 1 the target that drew it.
        e_id: int64 [e], ids of the edges in the original list.
        num_nodes: new vertices a hop, the seeds first: one more than hops; None where hops say nothing of the edges.
        num_edges: edges a hop, or None.
        tree: int64 [n], the seed that each vertex was found from, by its place; None where seeds share vertices.
    """

    n_id: Tensor
    edge_index: Tensor
    e_id: Tensor
    num_nodes: list[int] | None
    num_edges: list[int] | None
    tree: Tensor | None = None


class NeighbourSampler:
    """Samples batches from one graph; keeps its scratch memory, so one thread at a time may use it."""

    def __init__(self, graph: Csc) -> None:
        self._graph = graph
        self._ids = LocalIds(graph.num_vertices)
        self._found = np.empty(0, np.int64)
        self._rows, self._columns = np.empty(0, np.int32), np.empty(0, np.int32)
        self._positions = np.empty(0, np.int64)

    def sample(
        self, seeds: np.ndarray, fan_outs: Sequence[int], keys: Sequence[int], empty: Empty | None = None
    ) -> Sample:
        """Samples one batch.

        Args:
            seeds: int64 [B] in 0..N - 1; a repeated one stays repeated: each of its places draws edges of its own, and
                edges that come from the vertex come from its first place.
            fan_outs: neighbours to draw a hop, `ALL` for every one.
            keys: `hop_key` of every hop.
            empty: makes the tensors that are returned; None asks torch.
        """
        self._found = _with_room(self._found, 0, len(seeds))
        self._found[: len(seeds)] = seeds
        self._ids.begin(seeds)
        node_ends, edge_ends = [0, len(seeds)], [0]
        for fan_out, key in zip(fan_outs, keys, strict=True):
            self._hop(node_ends, edge_ends, fan_out, key)
        return self._sample(node_ends, edge_ends, empty or _torch_empty)

    def _hop(self, node_ends: list[int], edge_ends: list[int], fan_out: int, key: int) -> None:
        """Samples for the vertices found last and appends where nodes and edges end now.

        Three passes, each a tight loop of independent loads, are faster than one that does everything.
        """
        graph, (first, last), first_edge = self._graph, node_ends[-2:], edge_ends[-1]
        num_edges = _count_edges(graph.indptr, self._found[first:last], fan_out)
        last_edge = first_edge + num_edges
        self._reserve(last, num_edges, first_edge)
        rows, columns = self._rows[first_edge:last_edge], self._columns[first_edge:last_edge]
        positions = self._positions[first_edge:last_edge]
        _draw(graph.indptr, self._found[first:last], first, fan_out, np.uint64(key), columns, positions)
        _look_up(graph.indices, positions, rows)
        node_ends.append(self._ids.number(rows, self._found, last))
        edge_ends.append(last_edge)

    def _reserve(self, num_found: int, num_new: int, num_edges: int) -> None:
        self._found = _with_room(self._found, num_found, num_found + num_new)
        self._rows = _with_room(self._rows, num_edges, num_edges + num_new)
        self._columns = _with_room(self._columns, num_edges, num_edges + num_new)
        self._positions = _with_room(self._positions, num_edges, num_edges + num_new)
        self._ids.reserve(self._found[:num_found], num_new)

    def _sample(self, node_ends: list[int], edge_ends: list[int], empty: Empty) -> Sample:
        num_nodes, num_edges = node_ends[-1], edge_ends[-1]
        n_id = empty((num_nodes,), torch.int64)
        edge_index, e_id = empty((2, num_edges), torch.int64), empty((num_edges,), torch.int64)
        np.copyto(n_id.numpy(), self._found[:num_nodes])
        np.copyto(edge_index[0].numpy(), self._rows[:num_edges])
        np.copyto(edge_index[1].numpy(), self._columns[:num_edges])
        if self._graph.edge_ids is None:
            np.copyto(e_id.numpy(), self._positions[:num_edges])
        else:
            _look_up(self._graph.edge_ids, self._positions[:num_edges], e_id.numpy())
        return Sample(n_id, edge_index, e_id, np.diff(node_ends).tolist(), np.diff(edge_ends).tolist())


def _torch_empty(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    return torch.empty(tuple(shape), dtype=dtype)


def _with_room(array: np.ndarray, num_kept: int, size: int) -> np.ndarray:
    """The array itself, or a larger one with its first `num_kept` elements; grown by half at least."""
    if size <= len(array):
        return array
    larger = np.empty(max(size, len(array) * 3 // 2), array.dtype)
    larger[:num_kept] = array[:num_kept]
    return larger


@njit(nogil=True, cache=True)
def _count_edges(indptr, frontier, fan_out):  # pragma: no cover - compiled
    num_edges = 0
    for i in range(len(frontier)):
        degree = indptr[frontier[i] + 1] - indptr[frontier[i]]
        num_edges += degree if fan_out < 0 else min(degree, fan_out)
    return num_edges


@njit(nogil=True, cache=True)
def _draw(indptr, frontier, first_column, fan_out, key, columns, positions):  # pragma: no cover - compiled
    """Positions of the edges drawn, and for each its target's local id; the frontier's ids run from first_column."""
    at = 0
    for i in range(len(frontier)):
        start = indptr[frontier[i]]
        degree = indptr[frontier[i] + 1] - start
        num_drawn = degree
        if fan_out >= 0 and degree > fan_out:
            num_drawn = fan_out
            state = splitmix_at(key, np.uint64(frontier[i]))
            _draw_subset(state, start, degree, fan_out, positions, at)
        else:
            for j in range(degree):
                positions[at + j] = start + j
        for j in range(num_drawn):
            columns[at + j] = first_column + i
        at += num_drawn


@njit(nogil=True, cache=True)
def _draw_subset(state, start, degree, count, positions, at):  # pragma: no cover - compiled
    """Floyd's algorithm: every subset of `count` of the positions start..start + degree - 1 is as likely.

    Draw i is one of the first degree - count + i + 1 positions; where it was drawn before, the last of them.
    """
    for i in range(count):
        last = degree - count + i
        position = start + bounded(splitmix_at(state, np.uint64(i)), last + 1)
        for j in range(at, at + i):
            if positions[j] == position:
                position = start + last
                break
        positions[at + i] = position


@njit(nogil=True, cache=True)
def _look_up(table, positions, out):  # pragma: no cover - compiled
    for i in range(len(positions)):
        out[i] = table[positions[i]]
