"""Every halo vertex of every worker, as flat arrays, and what the workers' halos amount to when some are pruned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gnnplan.planner.graph import Graph
from gnnplan.planner.halo import Halo
from gnnplan.planner.rapa.influence import influence_scores


@dataclass(frozen=True)
class Loads:
    """What of the workers' shares depends on their halos.

    Args:
        remote_edges: int64 [W], entries of each worker's remote block.
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
        num_edges: int64 [K], entries of the worker's block that gather it.
        influence: float64 [K], equation 16.
    """

    num_workers: int
    worker: np.ndarray
    vertex: np.ndarray
    owner: np.ndarray
    num_edges: np.ndarray
    influence: np.ndarray

    @classmethod
    def of(cls, graph: Graph, halo: Halo) -> HaloPairs:
        """All pairs of a halo."""
        blocks = halo.blocks
        return cls(
            num_workers=halo.num_workers,
            worker=np.repeat(np.arange(len(blocks), dtype=np.int32), [len(block.halo) for block in blocks]),
            vertex=np.concatenate([block.halo for block in blocks]),
            owner=np.concatenate([block.halo_owner for block in blocks]),
            num_edges=np.concatenate([np.bincount(b.remote.indices, minlength=len(b.halo)) for b in blocks]),
            influence=influence_scores(graph, halo),
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

    def pruned(self, kept: np.ndarray) -> np.ndarray:
        """int32 [2, P]: (worker, vertex) of what is not kept."""
        return np.stack([self.worker[~kept], self.vertex[~kept]]).astype(np.int32)
