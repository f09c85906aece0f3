"""How much a halo vertex matters to the worker that gathers it."""

from __future__ import annotations

import numpy as np

from gnnplan.planner.graph import Graph
from gnnplan.planner.halo import Halo, LocalBlock
from gnnplan.planner.joint_cache.overlap import overlap_ratio
from gnnplan.planner.partition import vertex_weights


def influence_scores(graph: Graph, halo: Halo) -> np.ndarray:
    """float64 [K]: the influence of every halo vertex, worker by worker, in the order of its halo.

    CaPGNN, equation 16, for halo vertex i of a worker:

        S_i = (sum over j in N_out(i) of 1 / sqrt(Din_j Dout_i)
             + sum over j in N_in(i) of 1 / sqrt(Dout_j Din_i)) C_i

    N_out(i) and N_in(i) are the worker's own vertices that i sends to and hears from, Dout_i and Din_i
    their numbers; Din_j and Dout_j are degrees in the whole graph; C_i workers have i in their halo.
    """
    edges = graph.edge_index
    in_scale = _inverse_root(vertex_weights(graph.num_nodes, edges) - 1)
    out_scale = _inverse_root(vertex_weights(graph.num_nodes, edges[::-1]) - 1)
    numbers = _PairNumbers(halo, graph.num_nodes)
    sent, heard = _Sum(numbers.count), _Sum(numbers.count)
    for worker, block in enumerate(halo.blocks):
        target, column = _targets(block), block.remote.indices
        sent.add(numbers.first[worker] + column, in_scale[target])
        # The same edge, seen from the source's owner, enters the target where that is in its halo.
        number, is_halo = numbers.find(block.halo_owner[column], target)
        heard.add(number[is_halo], out_scale[block.halo[column[is_halo]]])
    return (sent.normalised() + heard.normalised()) * overlap_ratio(halo)[numbers.vertex]


def _inverse_root(degree: np.ndarray) -> np.ndarray:
    return 1 / np.sqrt(np.maximum(degree, 1))


def _targets(block: LocalBlock) -> np.ndarray:
    """Global id of the row of every entry of the remote block."""
    return np.repeat(block.vertices, np.diff(block.remote.indptr))


class _Sum:
    """Sums terms by pair and counts them."""

    def __init__(self, num_pairs: int) -> None:
        self.total, self.count = np.zeros(num_pairs), np.zeros(num_pairs, np.int64)

    def add(self, pair: np.ndarray, term: np.ndarray) -> None:
        self.total += np.bincount(pair, weights=term, minlength=len(self.total))
        self.count += np.bincount(pair, minlength=len(self.count))

    def normalised(self) -> np.ndarray:
        """By the root of the vertex's own degree, the number of terms."""
        return self.total * _inverse_root(self.count)


class _PairNumbers:
    """Finds the number of a (worker, halo vertex) pair."""

    def __init__(self, halo: Halo, num_nodes: int) -> None:
        sizes = [len(block.halo) for block in halo.blocks]
        self.count, self.num_nodes = sum(sizes), num_nodes
        self.first = np.concatenate([[0], np.cumsum(sizes)])
        self.vertex = np.concatenate([block.halo for block in halo.blocks])
        keys = np.repeat(np.arange(len(sizes)), sizes) * num_nodes + self.vertex
        self._order = np.argsort(keys)
        self._sorted = keys[self._order]

    def find(self, worker: np.ndarray, vertex: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(number, whether there is such a pair), for pairs of arrays."""
        keys = worker.astype(np.int64) * self.num_nodes + vertex
        if self.count == 0:
            return np.zeros(len(keys), np.int64), np.zeros(len(keys), bool)
        place = np.minimum(np.searchsorted(self._sorted, keys), self.count - 1)
        return self._order[place], self._sorted[place] == keys
