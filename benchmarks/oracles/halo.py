"""Halo sets of a partition: which remote rows every worker needs, and what each pair exchanges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.program.cuts import select_columns


@dataclass(frozen=True)
class LocalBlock:
    """What one worker holds of the aggregation matrix.

    Shapes: n local vertices, h halo vertices.

    Args:
        vertices: int64 [n], global ids of the local rows, ascending.
        halo: int64 [h], global ids of the halo rows, grouped by owner, ascending within an owner.
        halo_owner: int32 [h].
        local: CSR [n, n], columns local.
        remote: CSR [n, h], columns in the order of `halo`.
    """

    vertices: np.ndarray
    halo: np.ndarray
    halo_owner: np.ndarray
    local: sp.csr_matrix
    remote: sp.csr_matrix


@dataclass(frozen=True)
class Halo:
    """All blocks of a partition, and the rows each worker sends to each other.

    Args:
        blocks: one per worker.
        send: `send[p][q]` are row numbers local to p that q needs, in the order of q's halo.
    """

    blocks: tuple[LocalBlock, ...]
    send: tuple[tuple[np.ndarray, ...], ...]

    @property
    def num_workers(self) -> int:
        """Number of parts."""
        return len(self.blocks)

    def send_counts(self) -> np.ndarray:
        """int64 [W, W]: rows worker p sends to worker q in one exchange."""
        return np.array([[len(rows) for rows in row] for row in self.send], dtype=np.int64)


def build_halo(matrix: sp.csr_matrix, part: np.ndarray, num_workers: int) -> Halo:
    """Cuts the aggregation matrix [N, N] along `part` (int [N], owner of every vertex)."""
    local_id = np.empty(len(part), np.int64)
    owned = [np.flatnonzero(part == worker) for worker in range(num_workers)]
    for vertices in owned:
        local_id[vertices] = np.arange(len(vertices))
    blocks = tuple(_cut(matrix, part, vertices, worker, local_id) for worker, vertices in enumerate(owned))
    send = tuple(
        tuple(local_id[block.halo[block.halo_owner == sender]] for block in blocks) for sender in range(num_workers)
    )
    return Halo(blocks, send)


def _cut(
    matrix: sp.csr_matrix, part: np.ndarray, vertices: np.ndarray, worker: int, local_id: np.ndarray
) -> LocalBlock:
    rows = matrix[vertices]
    is_local = part[rows.indices] == worker
    halo = np.unique(rows.indices[~is_local]).astype(np.int64)
    halo = halo[np.argsort(part[halo], kind="stable")]
    halo_id = np.zeros(matrix.shape[0], np.int64)
    halo_id[halo] = np.arange(len(halo))
    return LocalBlock(
        vertices=vertices,
        halo=halo,
        halo_owner=part[halo].astype(np.int32),
        local=select_columns(rows, is_local, local_id, len(vertices)),
        remote=select_columns(rows, ~is_local, halo_id, len(halo)),
    )
