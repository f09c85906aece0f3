"""The arrays of a row layout: who holds which vertices, what every worker gathers, and who sends it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Sequence
from copy import copy
from itertools import pairwise
from typing import TypeVar

import numpy as np
import scipy.sparse as sp

from gnnplan.planner.program.cuts import Cut, has_entries
from gnnplan.planner.program.labels import Label, Labels

Ids = tuple[np.ndarray, ...]
T = TypeVar("T")


class Cutter:
    """Cuts along a partition under labels. What is equal for several levels is cut once and shared.

    Args:
        part: int [N], the owner of every vertex.
    """

    def __init__(self, part: np.ndarray, num_workers: int, labels: Labels | None = None) -> None:
        self.part, self.num_workers, self.labels = part, num_workers, labels or Labels()
        order = np.argsort(part, kind="stable")
        bounds = np.searchsorted(part[order], np.arange(num_workers + 1))
        self.owned: Ids = tuple(order[a:b].astype(np.int64) for a, b in pairwise(bounds))
        self._place = np.empty(len(part), np.int64)  # of every vertex among its owner's
        self._place[order] = np.arange(len(part)) - np.repeat(bounds[:-1], np.diff(bounds))
        self._made_before: dict[Hashable, object] = {}
        self._digests: dict[int, tuple[np.ndarray, bytes]] = {}

    def under(self, labels: Labels) -> Cutter:
        """The same partition under other labels. What does not depend on them is not cut again."""
        other = copy(self)
        other.labels = labels
        return other

    def _once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What stands under a key, or is made. Keys that name arrays by identity rest on these being kept here."""
        if key not in self._made_before:
            self._made_before[key] = make()
        return self._made_before[key]  # type: ignore[return-value]

    def _contents(self, ids: Sequence[np.ndarray]) -> tuple[bytes, ...]:
        """A digest of each array; of one that was seen before it is not taken again."""
        for each in ids:
            if id(each) not in self._digests:  # the array too, so that no other is taken for it
                self._digests[id(each)] = each, hashlib.blake2b(each.tobytes(), digest_size=16).digest()
        return tuple(self._digests[id(each)][1] for each in ids)

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

        def held() -> Ids:
            made = (self._made(level, worker) for worker in range(self.num_workers))
            return tuple(map(np.concatenate, zip(self.owned, made, strict=True)))

        return self._once(("held", self.labels.signature(level)), held)

    def gathered(self, matrix: sp.csr_matrix, level: int, row_level: int) -> Ids:
        """Ascending vertices of `level` whose rows are gathered for the rows of `row_level`, without dropped ones."""

        def gathered() -> Ids:
            found = (np.flatnonzero(has_entries(matrix, rows)) for rows in self.held(row_level))
            return tuple(ids[~self._drops(level, worker, ids)] for worker, ids in enumerate(found))

        key = ("gathered", id(matrix), self.labels.signature(level), self._rows_key(row_level))
        return self._once(key, gathered)

    def gathered_by_any(self, matrices: Sequence[sp.csr_matrix], level: int, row_level: int) -> Ids:
        """The same of some matrices together."""
        found = [self.gathered(matrix, level, row_level) for matrix in matrices]
        if len(found) == 1:
            return found[0]
        return tuple(np.unique(np.concatenate(of_each)) for of_each in zip(*found, strict=True))

    def missing(self, needed: Sequence[np.ndarray], level: int) -> Ids:
        """Ascending vertices whose rows of a level are needed and not held."""

        def missing() -> Ids:
            found = []
            for ids, have in zip(needed, self.held(level), strict=True):
                is_missing = np.zeros(len(self.part), bool)
                is_missing[ids] = True
                is_missing[have] = False
                found.append(np.flatnonzero(is_missing))
            return tuple(found)

        return self._once(("missing", self._contents(needed), self._rows_key(level)), missing)

    def _drops(self, level: int, worker: int, ids: np.ndarray) -> np.ndarray:
        return (self.labels.of(level, worker, ids) == Label.DROPPED) & (self.part[ids] != worker)

    def _rows_key(self, level: int) -> tuple:
        return () if self.makes_none(level) else self.labels.signature(level)

    def matrices(self, matrix: sp.csr_matrix, row_level: int, columns: Ids) -> tuple[Cut, ...]:
        """Every worker's rows of a matrix over its columns; entries of other columns, which were dropped, are gone."""
        key = ("matrices", id(matrix), self._rows_key(row_level), self._contents(columns))
        of_each = zip(self.held(row_level), columns, strict=True)
        return self._once(key, lambda: tuple(Cut.of(matrix, rows, ids) for rows, ids in of_each))

    def by_owner(self, missing: Sequence[np.ndarray], level: int, label: Label) -> Ids:
        """Of the vertices that workers lack, those with a label, grouped by owner and ascending within.

        Where a row is asked for though its edges are dropped, it is sent.
        """

        def by_owner() -> Ids:
            chosen = []
            for worker, ids in enumerate(missing):
                labels = self.labels.of(level, worker, ids)
                mine = ids[np.where(labels == Label.DROPPED, Label.SENT, labels) == label]
                chosen.append(mine[np.argsort(self.part[mine], kind="stable")])
            return tuple(chosen)

        return self._once(("by owner", self._contents(missing), self.labels.signature(level), label), by_owner)

    def senders(self, wanted: Sequence[np.ndarray]) -> tuple[Ids, Ids, np.ndarray]:
        """What every owner sends: global vertices and local rows, by receiver; and int64 [W, W] how many to whom."""
        return self._once(("senders", self._contents(wanted)), lambda: self._senders(wanted))

    def _senders(self, wanted: Sequence[np.ndarray]) -> tuple[Ids, Ids, np.ndarray]:
        counts = np.array([np.bincount(self.part[ids], minlength=self.num_workers) for ids in wanted]).T
        # Wanted rows are grouped by owner, so those of one owner are a slice.
        by_owner = [np.split(ids, np.cumsum(counts[:-1, worker])) for worker, ids in enumerate(wanted)]
        sent = tuple(np.concatenate(each) for each in zip(*by_owner, strict=True))
        return sent, tuple(self._place[ids] for ids in sent), counts.astype(np.int64)

    @staticmethod
    def positions(ids: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """int64: where vertices stand among others, all of which are there."""
        order = np.argsort(ids, kind="stable")
        return order[np.searchsorted(ids[order], wanted)].astype(np.int64)
