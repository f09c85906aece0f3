"""What PyG's loader can be asked for beside plain sampling: replacement, weights, disjoint trees, other edges.

Draws are pure functions as those of `gnnplan.profiles.kernels.sampling`: where nothing special is asked for, the batch
is the same bit for bit. It is made with numpy around two compiled loops, so it takes some times longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numba import njit

from gnnplan.profiles.kernels.csc import Csc
from gnnplan.profiles.kernels.draws import bounded, splitmix_at
from gnnplan.profiles.kernels.sampling import Empty, Sample, _draw_subset

SubgraphType = Literal["directional", "bidirectional", "induced"]


@dataclass(frozen=True)
class Variant:
    """How neighbours are drawn, and which edges a batch has.

    Args:
        replace: draw with replacement: a vertex with neighbours has as many edges as the fan-out.
        weights: float64 [E] by position in the graph's lists, at least 0; neighbours are drawn in proportion to them.
            None: all alike. Without replacement a neighbour of weight 0 comes only where others do not suffice.
        disjoint: every seed has a tree of its own, which shares no vertex with another's.
        subgraph_type: `directional`: the edges drawn; `bidirectional`: these and their reverses, each once;
            `induced`: all edges between the vertices found.
    """

    replace: bool = False
    weights: np.ndarray | None = None
    disjoint: bool = False
    subgraph_type: SubgraphType = "directional"

    @property
    def is_plain(self) -> bool:
        """Whether it asks for nothing."""
        return self == Variant() if self.weights is None else False


class VariantSampler:
    """Samples batches as a variant asks; it keeps nothing between them, so any thread may use it."""

    def __init__(self, graph: Csc, variant: Variant) -> None:
        self._graph, self._variant = graph, variant
        self._weights = np.empty(0) if variant.weights is None else variant.weights

    def sample(
        self, seeds: np.ndarray, fan_outs: Sequence[int], keys: Sequence[int], empty: Empty | None = None
    ) -> Sample:
        """One batch; arguments as those of `NeighbourSampler.sample`, whose memory is always torch's here."""
        variant, num_vertices = self._variant, max(1, self._graph.num_vertices)
        trees = np.arange(len(seeds)) if variant.disjoint else np.zeros(len(seeds), np.int64)
        found = trees * num_vertices + seeds  # a vertex of a tree as one number
        node_ends, rows, columns, positions = [0, len(seeds)], [], [], []
        for fan_out, key in zip(fan_outs, keys, strict=True):
            first = node_ends[-2]
            at, drawn_by = self._draw(found[first:], fan_out, key)
            targets = found[first:][drawn_by]
            sources = targets // num_vertices * num_vertices + self._graph.indices[at]
            local, found = _numbered(found, sources)
            rows.append(local)
            columns.append(drawn_by + first)
            positions.append(at)
            node_ends.append(len(found))
        edges = _Edges(*(np.concatenate(each) for each in (rows, columns, positions)))
        num_nodes, num_edges = np.diff(node_ends).tolist(), [len(each) for each in positions]
        if variant.subgraph_type == "induced":
            edges = self._induced(found)
        return self._sample(found, edges, num_nodes, num_edges)

    def _draw(self, frontier: np.ndarray, fan_out: int, key: int) -> tuple[np.ndarray, np.ndarray]:
        """Positions of the edges drawn [e], and which of the frontier [f] drew each."""
        num_vertices = max(1, self._graph.num_vertices)
        vertices = frontier % num_vertices
        degrees = self._graph.indptr[vertices + 1] - self._graph.indptr[vertices]
        if fan_out < 0:
            counts = degrees
        elif self._variant.replace:
            counts = np.where(degrees > 0, fan_out, 0)
        else:
            counts = np.minimum(degrees, fan_out)
        positions = np.empty(int(counts.sum()), np.int64)
        trees = frontier // num_vertices if self._variant.disjoint else np.full(len(frontier), -1)
        _draw_variant(
            self._graph.indptr,
            vertices,
            trees,
            fan_out,
            self._variant.replace,
            self._weights,
            np.uint64(key),
            positions,
        )
        return positions, np.repeat(np.arange(len(frontier)), counts)

    def _induced(self, found: np.ndarray) -> _Edges:
        """All edges between the vertices found, by target."""
        num_vertices = max(1, self._graph.num_vertices)
        positions, columns = self._draw(found, -1, 0)
        sources = found[columns] // num_vertices * num_vertices + self._graph.indices[positions]
        known, first = np.unique(found, return_index=True)
        at = np.minimum(np.searchsorted(known, sources), len(known) - 1)
        inside = known[at] == sources
        return _Edges(first[at][inside], columns[inside], positions[inside])

    def _sample(self, found: np.ndarray, edges: _Edges, num_nodes: list[int], num_edges: list[int]) -> Sample:
        num_vertices, ids = max(1, self._graph.num_vertices), self._graph.edge_ids
        edge_index = torch.from_numpy(np.stack([edges.rows, edges.columns]))
        e_id = torch.from_numpy(edges.positions if ids is None else ids[edges.positions])
        made = Sample(torch.from_numpy(found % num_vertices), edge_index, e_id, num_nodes, num_edges)
        if self._variant.disjoint:
            made = replace(made, tree=torch.from_numpy(found // num_vertices))
        if self._variant.subgraph_type == "directional":
            return made
        made = replace(made, num_nodes=None, num_edges=None)  # hops no longer say which edges are there
        return made if self._variant.subgraph_type == "induced" else _both_ways(made)


@dataclass(frozen=True)
class _Edges:
    """Local ids of both ends [e], and positions in the graph's lists [e]."""

    rows: np.ndarray
    columns: np.ndarray
    positions: np.ndarray


def _numbered(found: np.ndarray, sources: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Local ids of the sources, and all found by then: new ones behind, in the order in which they are met."""
    num_found = len(found)
    met = np.concatenate([found, sources])
    _, first, inverse = np.unique(met, return_index=True, return_inverse=True)
    new = np.sort(first[first >= num_found])
    local = np.where(first < num_found, first, num_found + np.searchsorted(new, first))
    return local[inverse[num_found:]], np.concatenate([found, met[new]])


def _both_ways(sample: Sample) -> Sample:
    """Every edge with its reverse, each pair of ends once, by target; the id is that of the first edge drawn there."""
    edge_index = torch.cat([sample.edge_index, sample.edge_index.flip(0)], 1)
    num_nodes = max(1, len(sample.n_id))
    ends = (edge_index[1] * num_nodes + edge_index[0]).numpy()
    _, first = np.unique(ends, return_index=True)
    kept = torch.from_numpy(first)
    return replace(sample, edge_index=edge_index[:, kept], e_id=sample.e_id.repeat(2)[kept])


@njit(nogil=True, cache=True)
def _draw_variant(
    indptr, vertices, trees, fan_out, with_replacement, weights, key, positions
):  # pragma: no cover - compiled
    """Fills the positions, vertex by vertex. A tree of -1 is none."""
    at = 0
    for i in range(len(vertices)):
        start = indptr[vertices[i]]
        degree = indptr[vertices[i] + 1] - start
        own = splitmix_at(key, np.uint64(trees[i])) if trees[i] >= 0 else key
        state = splitmix_at(own, np.uint64(vertices[i]))
        if fan_out < 0 or degree == 0 or (not with_replacement and degree <= fan_out):
            for j in range(degree):
                positions[at + j] = start + j
            at += degree
            continue
        if len(weights):
            _draw_weighted(state, start, degree, fan_out, with_replacement, weights, positions, at)
        elif with_replacement:
            for j in range(fan_out):
                positions[at + j] = start + bounded(splitmix_at(state, np.uint64(j)), degree)
        else:
            _draw_subset(state, start, degree, fan_out, positions, at)
        at += fan_out


@njit(nogil=True, cache=True)
def _draw_weighted(
    state, start, degree, count, with_replacement, weights, positions, at
):  # pragma: no cover - compiled
    """With replacement by the inverse of the sums; without by an exponential race (Efraimidis and Spirakis 2006)."""
    if with_replacement:
        sums = np.cumsum(weights[start : start + degree])
        for j in range(count):
            drawn = np.searchsorted(sums, _uniform(splitmix_at(state, np.uint64(j))) * sums[-1], side="right")
            positions[at + j] = start + min(drawn, degree - 1)
        return
    arrivals = np.empty(degree)
    for j in range(degree):
        weight = weights[start + j]
        wait = -np.log(1.0 - _uniform(splitmix_at(state, np.uint64(j))))
        arrivals[j] = wait / weight if weight > 0 else np.inf
    order = np.argsort(arrivals)
    for j in range(count):
        positions[at + j] = start + order[j]


@njit(nogil=True, cache=True)
def _uniform(bits):  # pragma: no cover - compiled
    """A float64 in [0, 1) from uint64 bits."""
    return np.float64(bits >> np.uint64(11)) * 2.0**-53
