"""Every halo vertex of every worker, as flat arrays, and what the workers' halos amount to when some are pruned."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.graph import Graph
from gnnplan.planner.techniques.pruning.cut_edges import CutEdges
from gnnplan.planner.techniques.pruning.influence import influence_scores


@dataclass(frozen=True)
class Loads:
    """What of the workers' shares depends on their halos.

    Args:
        remote_edges: int64 [W], entries of the aggregation matrix that gather halo rows.
        send_counts: int64 [W, W], rows worker p sends to q in one exchange.
    """

    remote_edges: np.ndarray
    send_counts: np.ndarray


@dataclass(frozen=True)
class HaloPairs:
    """The (worker, halo vertex) pairs of a partition, worker by worker.

    Shapes: K pairs, W workers. A choice among them is `kept`, bool [K].

    Args:
        worker: int32 [K], who gathers the vertex.
        vertex: int64 [K], global ids.
        owner: int32 [K], who sends it.
        num_edges: int64 [K], entries of the worker's rows that gather it.
        influence: float64 [K], equation 16.
    """

    num_workers: int
    worker: np.ndarray
    vertex: np.ndarray
    owner: np.ndarray
    num_edges: np.ndarray
    influence: np.ndarray

    @classmethod
    def of(cls, graph: Graph, matrix: sp.csr_matrix, part: np.ndarray, num_workers: int) -> HaloPairs:
        """All pairs of a partition, int [N], under an aggregation matrix."""
        return cls.of_cut(graph, CutEdges.of(matrix, part), part, num_workers)

    @classmethod
    def of_cut(cls, graph: Graph, cut: CutEdges, part: np.ndarray, num_workers: int) -> HaloPairs:
        """The same of a partition's cut edges."""
        worker, vertex = np.divmod(cut.keys, cut.num_nodes)
        return cls(
            num_workers=num_workers,
            worker=worker.astype(np.int32),
            vertex=vertex,
            owner=part[vertex].astype(np.int32),
            num_edges=np.bincount(cut.entering, minlength=len(cut.keys)),
            influence=influence_scores(graph, cut),
        )

    @property
    def everything(self) -> np.ndarray:
        """The choice that prunes nothing."""
        return np.ones(len(self.worker), bool)

    def loads(self, kept: np.ndarray) -> Loads:
        """What the workers gather and send of the pairs kept."""
        size = self.num_workers
        routes = self.owner[kept].astype(np.int64) * size + self.worker[kept]
        edges = np.bincount(self.worker[kept], weights=self.num_edges[kept], minlength=size)
        return Loads(edges.astype(np.int64), np.bincount(routes, minlength=size * size).reshape(size, size))

    def changed(self, loads: Loads, worker: int, numbers: np.ndarray, sign: int) -> Loads:
        """Loads with some pairs of one worker added (`sign` 1) or taken away (-1)."""
        edges, counts = loads.remote_edges.copy(), loads.send_counts.copy()
        edges[worker] += sign * self.num_edges[numbers].sum()
        counts[:, worker] += sign * np.bincount(self.owner[numbers], minlength=self.num_workers)
        return Loads(edges, counts)

    def ranked(self, worker: int, among: np.ndarray) -> np.ndarray:
        """int64: the worker's pairs among some, bool [K], of least influence first."""
        own = self._ranked[worker]
        return own[among[own]]

    @cached_property
    def _ranked(self) -> list[np.ndarray]:
        order = np.lexsort((self.influence, self.worker))
        ends = np.searchsorted(self.worker[order], np.arange(self.num_workers + 1))
        return [order[first:last] for first, last in pairwise(ends)]

    def most_influential(self, share: float) -> np.ndarray:
        """The choice that keeps a share of every worker's pairs, those of most influence."""
        kept = np.zeros(len(self.worker), bool)
        for worker in range(self.num_workers):
            ranked = self.ranked(worker, self.everything)
            kept[ranked[len(ranked) - round(share * len(ranked)) :]] = True
        return kept
