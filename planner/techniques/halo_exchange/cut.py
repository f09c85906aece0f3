"""The arrays of a row layout: who holds which vertices, what every worker gathers, and who sends it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.halo import select_columns
from gnnplan.planner.program.labels import Label, Labels

Ids = tuple[np.ndarray, ...]


class Cutter:
    """Cuts along a partition under labels. What is equal for several levels is cut once and shared.

    Args:
        part: int [N], the owner of every vertex.
    """

    def __init__(self, part: np.ndarray, num_workers: int, labels: Labels) -> None:
        self.part, self.num_workers, self.labels = part, num_workers, labels
        order = np.argsort(part, kind="stable")
        bounds = np.searchsorted(part[order], np.arange(num_workers + 1))
        self.owned: Ids = tuple(order[a:b].astype(np.int64) for a, b in pairwise(bounds))
        self._held: dict[tuple, Ids] = {}
        self._gathered: dict[tuple, Ids] = {}
        self._matrices: dict[tuple, tuple[sp.csr_matrix, ...]] = {}

    def makes_none(self, level: int) -> bool:
        """Whether every worker's rows of a level are its own."""
        return not any(len(self._made(level, worker)) for worker in range(self.num_workers))

    def _made(self, level: int, worker: int) -> np.ndarray:
        made = self.labels.vertices(level, worker, Label.MADE)
        return made[self.part[made] != worker]

    def held(self, level: int) -> Ids:
        """Vertices whose rows of a level a worker has without asking: its own, then those it makes."""
        if self.makes_none(level):
            return self.owned
        key = self.labels.signature(level)
        if key not in self._held:
            made = (self._made(level, worker) for worker in range(self.num_workers))
            self._held[key] = tuple(map(np.concatenate, zip(self.owned, made, strict=True)))
        return self._held[key]

    def gathered(self, matrix: sp.csr_matrix, level: int, row_level: int) -> Ids:
        """Ascending vertices of `level` whose rows are gathered for the rows of `row_level`, without dropped ones."""
        key = (id(matrix), self.labels.signature(level), self._rows_key(row_level))
        if key not in self._gathered:
            found = []
            for worker, rows in enumerate(self.held(row_level)):
                ids = np.unique(matrix[rows].indices).astype(np.int64)
                found.append(ids[~self._drops(level, worker, ids)])
            self._gathered[key] = tuple(found)
        return self._gathered[key]

    def _drops(self, level: int, worker: int, ids: np.ndarray) -> np.ndarray:
        return (self.labels.of(level, worker, ids) == Label.DROPPED) & (self.part[ids] != worker)

    def _rows_key(self, level: int) -> tuple:
        return () if self.makes_none(level) else self.labels.signature(level)

    def matrices(self, matrix: sp.csr_matrix, row_level: int, level: int, columns: Ids) -> tuple[sp.csr_matrix, ...]:
        """Every worker's rows of a matrix over its columns; entries of other columns, which were dropped, are gone."""
        key = (id(matrix), self._rows_key(row_level), tuple(each.tobytes() for each in columns))
        if key not in self._matrices:
            self._matrices[key] = tuple(
                self._over(matrix[rows], ids) for rows, ids in zip(self.held(row_level), columns, strict=True)
            )
        return self._matrices[key]

    def _over(self, rows: sp.csr_matrix, columns: np.ndarray) -> sp.csr_matrix:
        new_id = np.full(len(self.part), -1, np.int64)
        new_id[columns] = np.arange(len(columns))
        return select_columns(rows, new_id[rows.indices] >= 0, new_id, len(columns))

    def by_owner(self, missing: Sequence[np.ndarray], level: int, label: Label) -> Ids:
        """Of the vertices that workers lack, those with a label, grouped by owner and ascending within.

        Where a row is asked for though its edges are dropped, it is sent.
        """
        chosen = []
        for worker, ids in enumerate(missing):
            labels = self.labels.of(level, worker, ids)
            mine = ids[np.where(labels == Label.DROPPED, Label.SENT, labels) == label]
            chosen.append(mine[np.argsort(self.part[mine], kind="stable")])
        return tuple(chosen)

    def senders(self, wanted: Sequence[np.ndarray], level: int) -> tuple[Ids, Ids, np.ndarray]:
        """What every owner sends: global vertices and local rows, by receiver; and int64 [W, W] how many to whom."""
        counts = np.array([np.bincount(self.part[ids], minlength=self.num_workers) for ids in wanted]).T
        # Wanted rows are grouped by owner, so those of one owner are a slice.
        by_owner = [np.split(ids, np.cumsum(counts[:-1, worker])) for worker, ids in enumerate(wanted)]
        sent = tuple(np.concatenate(each) for each in zip(*by_owner, strict=True))
        return sent, tuple(map(self.positions, self.held(level), sent)), counts.astype(np.int64)

    @staticmethod
    def positions(ids: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """int64: where vertices stand among others, all of which are there."""
        order = np.argsort(ids, kind="stable")
        return order[np.searchsorted(ids[order], wanted)].astype(np.int64)
