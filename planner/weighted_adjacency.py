"""Aggregation matrices with weights of edges, as PyG's layers make them of `edge_weight`."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp


def weighted_matrix(num_nodes: int, edge_index: np.ndarray, weights: np.ndarray, kind: str) -> sp.csr_matrix:
    """CSR float32 [N, N] of weighted sums: `gcn`, `tagcn` or `sum` as in `gnnplan.planner.adjacency`.

    Weights of repeated edges add up. A vertex that has a loop keeps its weight in `gcn`; of several the last one's.

    Args:
        weights: float [E].
    """
    source, target = edge_index[0], edge_index[1]
    if kind == "gcn":
        is_loop, loops = source == target, np.ones(num_nodes, np.float32)
        loops[source[is_loop]] = weights[is_loop]
        everything = np.arange(num_nodes, dtype=source.dtype)
        source, target = (np.concatenate([ends[~is_loop], everything]) for ends in (source, target))
        weights = np.concatenate([weights[~is_loop], loops])
    weights = weights.astype(np.float64)
    if kind != "sum":
        degree = np.bincount(target, weights, num_nodes)
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = degree**-0.5
        scale[np.isinf(scale)] = 0
        weights = scale[source] * weights * scale[target]
    matrix = sp.coo_matrix((weights, (target, source)), shape=(num_nodes, num_nodes)).tocsr()
    matrix.sum_duplicates()
    found = matrix.astype(np.float32)
    found.indices, found.indptr = found.indices.astype(np.int32), found.indptr.astype(np.int64)
    return found
