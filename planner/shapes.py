"""The sizes of one worker's share that seconds and bytes depend on."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from pydantic import NonNegativeInt

from gnnplan.planner.graph import Graph
from gnnplan.planner.halo import Halo, LocalBlock
from gnnplan.profiles.contract import Contract

_SAMPLED_ROWS = 2000


class WorkerShape(Contract):
    """Sizes of one worker's share.

    Args:
        num_local, num_halo: rows owned and rows received in one exchange.
        num_sent: rows sent in one exchange, over all receivers.
        local_edges, remote_edges: entries of the two blocks of the aggregation matrix.
        num_train: training vertices owned.
        hop_entries: stored entries of X, AX, A^2 X ... as CSR (rows x F where dense).
    """

    num_local: NonNegativeInt
    num_halo: NonNegativeInt
    num_sent: NonNegativeInt
    local_edges: NonNegativeInt
    remote_edges: NonNegativeInt
    num_train: NonNegativeInt
    hop_entries: tuple[NonNegativeInt, ...]

    @property
    def num_edges(self) -> int:
        """Entries of both blocks."""
        return self.local_edges + self.remote_edges


def worker_shapes(graph: Graph, halo: Halo, *, num_hops: int, sparse_features: bool) -> tuple[WorkerShape, ...]:
    """The shape of every worker's share; `num_hops` aggregations of sparse features are sized by sampling."""
    sent = halo.send_counts().sum(1)
    return tuple(
        WorkerShape(
            num_local=len(block.vertices),
            num_halo=len(block.halo),
            num_sent=int(sent[worker]),
            local_edges=block.local.nnz,
            remote_edges=block.remote.nnz,
            num_train=int(graph.train_mask[block.vertices].sum()),
            hop_entries=_hop_entries(graph, block, num_hops, sparse_features),
        )
        for worker, block in enumerate(halo.blocks)
    )


def _hop_entries(graph: Graph, block: LocalBlock, num_hops: int, sparse: bool) -> tuple[int, ...]:
    dense = len(block.vertices) * graph.num_features
    if not sparse:
        return (dense,) * (num_hops + 1)
    x = graph.x if graph.has_sparse_features else sp.csr_matrix(graph.x)
    first = int(x[block.vertices].nnz)
    second = _sampled_product_entries(block, x) if num_hops else 0
    growth = second / first if first else 1.0
    later = (min(dense, int(second * growth**k)) for k in range(num_hops))
    return (first, *later)


def _sampled_product_entries(block: LocalBlock, x: sp.csr_matrix) -> int:
    """Entries of A X over the local rows, from a sample of them: the full product may not fit."""
    n = len(block.vertices)
    if n == 0:
        return 0
    rows = np.random.default_rng(0).choice(n, min(n, _SAMPLED_ROWS), replace=False)
    near = (block.local[rows] != 0) @ (x[block.vertices] != 0)
    far = (block.remote[rows] != 0) @ (x[block.halo] != 0)
    return int((near + far).nnz * n / len(rows))
