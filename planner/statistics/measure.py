"""Statistics of a graph that is here."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.adjacency import aggregation_matrix
from gnnplan.planner.graph import Graph
from gnnplan.planner.job_pins import Partitioner
from gnnplan.planner.partitioning.partition import Partitioning
from gnnplan.planner.statistics.contract import Cut, Statistics
from gnnplan.planner.statistics.degrees import binned
from gnnplan.profiles.errors import UserError

PARTS = (2, 4, 8, 16)
_SAMPLED_ROWS = 2000


def measure(
    graph: Graph,
    parts: Iterable[int] = PARTS,
    partitioner: Partitioner = "kaminpar",
    on_step: Callable[[str], None] = lambda _: None,
) -> Statistics:
    """Sizes, degrees and densities of a graph, and how a partitioner cuts it.

    Args:
        parts: numbers of equal parts that it is cut into; those above N are left out.
        on_step: told in words what is done.
    """
    if graph.pairs:
        raise UserError(f"{graph.name}: statistics know no pairs of a link prediction; leave graph.link out")
    on_step("counting degrees")
    matrix = without_loops(graph)
    whole, cuts = Partitioning(graph.num_nodes, graph.edge_index), []
    for num_parts in sorted({each for each in parts if 2 <= each <= graph.num_nodes}):
        on_step(f"cutting into {num_parts} parts")
        cuts.append(cut_of(matrix, whole.into(num_parts, partitioner), num_parts))
    density, aggregated = _densities(graph, matrix)
    fractions = [float(mask.mean()) for mask in (graph.train_mask, graph.val_mask, graph.test_mask)]
    return Statistics(
        name=graph.name,
        num_nodes=graph.num_nodes,
        num_edges=max(int(matrix.nnz), 1),
        num_features=graph.num_features,
        num_classes=graph.num_classes,
        is_multilabel=graph.is_multilabel,
        train_fraction=fractions[0],
        val_fraction=fractions[1],
        test_fraction=fractions[2],
        feature_density=density,
        aggregated_density=aggregated,
        sparse_feature_density=1.0 if graph.has_sparse_features else 0.0,
        degrees=binned(np.bincount(matrix.indices, minlength=graph.num_nodes)),
        cuts=tuple(cuts),
        partitioner=partitioner,
    )


def without_loops(graph: Graph) -> sp.csr_matrix:
    """CSR [N, N]: row i gathers the other vertices that vertex i aggregates, each once."""
    matrix = aggregation_matrix(graph.num_nodes, graph.edge_index, "sage")
    rows = np.repeat(np.arange(graph.num_nodes), np.diff(matrix.indptr))
    kept = rows != matrix.indices
    columns, rows = matrix.indices[kept], rows[kept]
    return sp.csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), shape=matrix.shape)


def cut_of(matrix: sp.csr_matrix, part: np.ndarray, num_parts: int) -> Cut:
    """What a partition cuts.

    Args:
        matrix: as `without_loops` makes it.
        part: int32 [N], the owner of every vertex.
    """
    num_nodes = len(part)
    rows = np.repeat(part, np.diff(matrix.indptr))
    remote = rows != part[matrix.indices]
    pairs = np.unique(rows[remote].astype(np.int64) * num_nodes + matrix.indices[remote])
    halo, own = (np.bincount(each, minlength=num_parts) for each in (pairs // num_nodes, part))
    return Cut(
        num_parts=num_parts,
        remote_edges=float(remote.mean()) if len(remote) else 0.0,
        halo_rows=len(pairs) / num_nodes,
        largest_halo=float(halo.max() / max(halo.mean(), 1e-12)) if len(pairs) else 1.0,
        largest_own=float(own.max() / own.mean()),
    )


def _densities(graph: Graph, matrix: sp.csr_matrix) -> tuple[float, float]:
    """Of the features, and of a sample of their aggregated rows."""
    size = graph.num_nodes * graph.num_features
    if not graph.has_sparse_features:
        return float(np.count_nonzero(graph.x) / size), 1.0
    x = sp.csr_matrix(graph.x)
    ids = np.random.default_rng(0).choice(graph.num_nodes, min(graph.num_nodes, _SAMPLED_ROWS), replace=False)
    with_itself = matrix[ids] + sp.identity(graph.num_nodes, format="csr", dtype=np.float32)[ids]
    aggregated = sp.csr_matrix(with_itself @ (x != 0)).nnz / (len(ids) * graph.num_features)
    return float(x.nnz / size), float(min(aggregated, 1.0))
