"""The aggregation matrix of each kind of layer: row i gathers the in-neighbours of vertex i, as PyG does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.weighted_adjacency import weighted_matrix

Aggregation = Literal[
    "gcn",
    "sage",
    "gin",
    "tagcn",
    "gat",
    "sgc",
    "appnp",
    "decoupled_gat",
    "sum",
    "edges",
    "layer",
    "weighted_gcn",
    "weighted_tagcn",
    "weighted_sum",
]
_AS_GAT: tuple[Aggregation, ...] = ("gat", "decoupled_gat")
_AS_GCN: tuple[Aggregation, ...] = ("gcn", "sgc", "appnp")
WITH_WEIGHTS: Mapping[Aggregation, Aggregation] = {
    "gcn": "weighted_gcn",
    "tagcn": "weighted_tagcn",
    "sum": "weighted_sum",
}
"""The same sums with the graph's weights of edges."""
SELF = 0
"""The value of the entry of a row itself, in the matrix of a layer of somebody's own."""


def aggregation_matrix(
    num_nodes: int, edge_index: np.ndarray, kind: Aggregation, edge_weight: np.ndarray | None = None
) -> sp.csr_matrix:
    """CSR float32 [N, N] whose product with [N, F] rows is the aggregation.

    `sum` and `edges` are of layers without self loops and without weights.

    | model | matrix |
    |---|---|
    | gcn, sgc, appnp | D^-1/2 (A + I) D^-1/2, one self loop a vertex (Kipf and Welling 2017, eq. 2) |
    | sage | D^-1 A, zero rows where there is no in-neighbour (Hamilton et al. 2017, mean) |
    | gin | A + I (Xu et al. 2019, eq. 4.1 with epsilon = 0) |
    | tagcn | D^-1/2 A D^-1/2, self loops of the data kept (Du et al. 2017) |
    | gat, decoupled_gat | A + I with one self loop a vertex, ones; repeated edges stay repeated |
    | sum | A |
    | edges | A, ones; repeated edges stay repeated |
    | weighted_* | with weights of edges: `gnnplan.planner.weighted_adjacency` |
    | layer | of a layer of somebody's own: `layer_matrix` |

    A repeated edge counts as often as it is listed, as in PyG.
    """
    if kind == "layer":
        return layer_matrix(num_nodes, edge_index)
    if kind.startswith("weighted_"):
        assert edge_weight is not None
        return weighted_matrix(num_nodes, edge_index, edge_weight, kind.removeprefix("weighted_"))
    source, target = edge_index[0], edge_index[1]
    if kind in (*_AS_GCN, *_AS_GAT):
        source, target = _with_one_self_loop(num_nodes, source, target)
    matrix = _rows_by_target(num_nodes, source, target)
    if kind in (*_AS_GAT, "edges"):
        return matrix
    in_degree = np.diff(matrix.indptr).astype(np.float32)
    if kind == "sage":
        matrix.data /= np.repeat(np.maximum(in_degree, 1), np.diff(matrix.indptr))
    elif kind in (*_AS_GCN, "tagcn"):
        with np.errstate(divide="ignore"):
            scale = np.float32(1) / np.sqrt(in_degree)
        scale[in_degree == 0] = 0
        matrix.data *= np.repeat(scale, np.diff(matrix.indptr))
        matrix.data *= scale[matrix.indices]
    matrix.sum_duplicates()
    if kind == "gin":
        matrix = (matrix + sp.identity(num_nodes, np.float32, format="csr")).tocsr()
    return matrix


def layer_matrix(num_nodes: int, edge_index: np.ndarray) -> sp.csr_matrix:
    """CSR int64 [N, N]: by target and source the number of every edge, from 1, and an entry of every row itself."""
    everything = np.arange(num_nodes)
    row, column = (np.concatenate([everything, ends]) for ends in (edge_index[1], edge_index[0]))
    number = np.concatenate([np.full(num_nodes, SELF), np.arange(1, edge_index.shape[1] + 1)]).astype(np.int64)
    order = np.lexsort((number, column, row))
    starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=num_nodes))])
    parts = number[order], column[order].astype(np.int32), starts.astype(np.int64)
    return sp.csr_matrix(parts, shape=(num_nodes, num_nodes))


def _with_one_self_loop(num_nodes: int, source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    keep = source != target
    loops = np.arange(num_nodes, dtype=source.dtype)
    return np.concatenate([source[keep], loops]), np.concatenate([target[keep], loops])


def _rows_by_target(num_nodes: int, source: np.ndarray, target: np.ndarray) -> sp.csr_matrix:
    """CSR of ones with sorted columns; a repeated edge stays a repeated entry."""
    # Transposing a CSR by way of CSC sorts each row's columns without a comparison sort.
    ones = np.ones(len(source), np.float32)
    indptr = np.zeros(num_nodes + 1, np.int64)
    np.cumsum(np.bincount(source, minlength=num_nodes), out=indptr[1:])
    order = np.argsort(source, kind="stable")
    by_source = sp.csr_matrix((ones, target[order].astype(np.int32), indptr), shape=(num_nodes, num_nodes))
    return by_source.T.tocsr()
