"""Which rows lie in every host's region, and who of its workers writes them (CaPGNN's JACA, section 4.2).

All of it follows from who reads which row and who owns it, so a decision need only say which rows are shared, and it
stays right where other techniques let a worker make or drop a row instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class HostRows:
    """One host's region: m rows, those of one writer together, its own before those that it receives.

    Args:
        vertices: int64 [m], global ids.
        owner: int64 [m], who sends the row where it travels.
        writer: int64 [m], rank of the worker that writes it.
    """

    vertices: np.ndarray
    owner: np.ndarray
    writer: np.ndarray

    def owned_by(self, rank: int) -> np.ndarray:
        """int64: vertices whose rows a worker writes and owns."""
        return self.vertices[(self.writer == rank) & (self.owner == rank)]

    def received_by(self, rank: int) -> tuple[np.ndarray, np.ndarray]:
        """int64: vertices whose rows a worker receives to write them, grouped by owner, and their owners."""
        mine = (self.writer == rank) & (self.owner != rank)
        return self.vertices[mine], self.owner[mine]

    def places_of(self, rank: int) -> np.ndarray:
        """int64: the rows that a worker writes, without a gap."""
        return np.flatnonzero(self.writer == rank)


def host_rows(ranks: Sequence[int], wanted: Sequence[np.ndarray], owners: Sequence[np.ndarray]) -> HostRows:
    """A host's rows with their writers: the owner where it is on the host, else one reader, all in turn.

    Args:
        ranks: the host's workers, ascending.
        wanted: int64, of each worker the vertices whose rows it reads; owners: who owns these.
    """
    vertices, first = np.unique(np.concatenate(wanted), return_index=True)
    owner = np.concatenate(owners)[first].astype(np.int64)
    reads = np.stack([np.isin(vertices, each) for each in wanted], axis=1)
    turn = np.arange(len(vertices)) % np.maximum(reads.sum(1), 1)
    reader = (reads & (reads.cumsum(1) == turn[:, None] + 1)).argmax(1)
    is_owned = np.isin(owner, ranks)
    writer = np.where(is_owned, owner, np.asarray(ranks, np.int64)[reader])
    order = np.lexsort((vertices, owner, ~is_owned, writer))
    return HostRows(vertices[order], owner[order], writer[order])


def positions(ids: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """int64: where vertices stand among others, all of which are there."""
    order = np.argsort(ids, kind="stable")
    return order[np.searchsorted(ids, wanted, sorter=order)].astype(np.int64)
