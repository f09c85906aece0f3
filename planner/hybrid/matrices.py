"""The parts of the aggregation matrix that lead a worker's rows from one level to the next.

Shapes: n own rows, h halo vertices, b beyond; r replicas and c fetched rows at a level, s replicas at the next.
The universe of a worker's columns is its own rows, then its neighbourhood: n + h + b.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.halo import LocalBlock, select_columns
from gnnplan.planner.hybrid.neighbourhood import Neighbourhood
from gnnplan.planner.hybrid.split import Split


def neighbourhood_rows(matrix: sp.csr_matrix, block: LocalBlock, near: Neighbourhood) -> sp.csr_matrix:
    """CSR [h + b, n + h + b]: rows of the aggregation matrix [N, N] for all that may be replicas above the first level.

    Others are left empty: those of the last hop, and all of the halo where there is no hop.
    """
    num_local, num_places = len(block.vertices), len(near.vertices)
    column = np.full(matrix.shape[0], -1, np.int64)
    column[block.vertices] = np.arange(num_local)
    column[near.vertices] = num_local + np.arange(num_places)
    wanted = expands(near)
    rows = matrix[near.vertices[wanted]]
    assert (column[rows.indices] >= 0).all(), "a replica's row gathers what the neighbourhood does not hold"
    indptr = np.zeros(num_places + 1, np.int64)
    indptr[1:][wanted] = np.diff(rows.indptr)
    return sp.csr_matrix(
        (rows.data, column[rows.indices].astype(np.int32), np.cumsum(indptr).astype(np.int32)),
        shape=(num_places, num_local + num_places),
    )


def expands(near: Neighbourhood) -> np.ndarray:
    """bool [h + b]: which may be replicas above the first level: all but those of the last hop."""
    found = np.zeros(len(near.vertices), bool)
    found[: near.num_halo] = near.num_hops > 0
    hop = found.copy()
    for _ in range(near.num_hops - 1):
        reached = np.zeros(len(found), bool)
        reached[near.gathers[np.repeat(hop, np.diff(near.starts))]] = True
        hop = reached & ~found
        found |= hop
    return found


@dataclass(frozen=True)
class LevelMatrices:
    """What a gather multiplies, beside the own rows over own rows [n, n], which are the same at every level.

    Args:
        near: CSR [n, r], own rows over replicas.
        made: CSR [s, n + r], rows of the next level's replicas over own rows and replicas.
        far: CSR [n + s, c], rows of both over what is fetched.
    """

    near: sp.csr_matrix
    made: sp.csr_matrix
    far: sp.csr_matrix


def cut_level(remote: sp.csr_matrix, rows: sp.csr_matrix, split: Split, level: int) -> LevelMatrices:
    """The matrices from `level` to the next under a split.

    Args:
        remote: CSR [n, h], own rows over the halo.
        rows: CSR [h + b, n + h + b], as `neighbourhood_rows` gives them.
    """
    num_local, num_halo = remote.shape
    here, fetched, above = split.replicas(level), split.fetched(level), split.replicas(level + 1)
    made_row = rows[above]
    to_here = _columns(rows.shape[1], num_local, here, keeps_own=True)
    to_fetched = _columns(rows.shape[1], num_local, fetched, keeps_own=False)
    halo = slice(num_local, num_local + num_halo)
    near = _select(remote, to_here[halo] - num_local, len(here))
    made = _select(made_row, to_here, num_local + len(here))
    own_far, made_far = _select(remote, to_fetched[halo], len(fetched)), _select(made_row, to_fetched, len(fetched))
    assert near.nnz + own_far.nnz == remote.nnz, "a halo row is neither made nor fetched"
    assert made.nnz + made_far.nnz == made_row.nnz, "a replica's row gathers what is neither made nor fetched"
    return LevelMatrices(near, made, _below(own_far, made_far))


@dataclass(frozen=True)
class LevelEdges:
    """All entries of a gather in one matrix, for an attention, whose targets come first among its sources.

    Args:
        edges: CSR [n + s, n + r + c].
        here, fetched: int64 [r] and [c], columns of the replicas and of the fetched rows.
    """

    edges: sp.csr_matrix
    here: np.ndarray
    fetched: np.ndarray


def cut_edges(local: sp.csr_matrix, remote: sp.csr_matrix, rows: sp.csr_matrix, split: Split, level: int) -> LevelEdges:
    """The entries from `level` to the next under a split; arguments as `cut_level`'s, and own rows over own rows."""
    num_local, num_halo = remote.shape
    here, fetched, above = split.replicas(level), split.fetched(level), split.replicas(level + 1)
    # A replica's own row of the level below is at hand: its targets are among the sources.
    order = np.concatenate([above, np.setdiff1d(np.concatenate([here, fetched]), above)])
    column = _columns(rows.shape[1], num_local, order, keeps_own=True)
    num_columns = num_local + len(order)
    own = sp.hstack([local, remote], format="csr")
    own = _select(own, column[: num_local + num_halo], num_columns)
    edges = _below(own, _select(rows[above], column, num_columns))
    assert edges.nnz == local.nnz + remote.nnz + rows[above].nnz, "a source is neither own, nor made, nor fetched"
    return LevelEdges(edges, column[num_local + here], column[num_local + fetched])


def _columns(size: int, num_local: int, places: np.ndarray, *, keeps_own: bool) -> np.ndarray:
    """int64 [size]: new numbers of the universe's columns, own ones first where they are kept; -1: left out."""
    column = np.full(size, -1, np.int64)
    if keeps_own:
        column[:num_local] = np.arange(num_local)
    column[num_local + places] = np.arange(len(places)) + (num_local if keeps_own else 0)
    return column


def _select(rows: sp.csr_matrix, column: np.ndarray, num_columns: int) -> sp.csr_matrix:
    return select_columns(rows, column[rows.indices] >= 0, column, num_columns)


def _below(upper: sp.csr_matrix, lower: sp.csr_matrix) -> sp.csr_matrix:
    """The rows of both, one below the other; repeated entries stay repeated."""
    return sp.csr_matrix(
        (
            np.concatenate([upper.data, lower.data]),
            np.concatenate([upper.indices, lower.indices]),
            np.concatenate([upper.indptr, upper.indptr[-1] + lower.indptr[1:]]),
        ),
        shape=(upper.shape[0] + lower.shape[0], upper.shape[1]),
    )
