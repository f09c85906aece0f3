"""Parts of a matrix that are counted at once and cut out when somebody reads them.

A search looks at many ways to share a graph out and needs of each only how many edges there are. What is cut out in the
end is the chosen plan's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp

from gnnplan.profiles.kernels.lazily import Lazily

_loops = Lazily("gnnplan.planner.program.cut_loops")


@dataclass(frozen=True, eq=False)
class Cut:
    """Rows of a matrix over some of its columns.

    Args:
        source: CSR [N, N].
        rows: int64, in the order of the part's rows.
        columns: int64, distinct, in the order of the part's columns; entries of other columns are left out.
        nnz: how many entries are left.
        factor: of every entry.
    """

    source: sp.csr_matrix
    rows: np.ndarray
    columns: np.ndarray
    nnz: int
    factor: float = 1.0

    @classmethod
    def of(cls, source: sp.csr_matrix, rows: np.ndarray, columns: np.ndarray, factor: float = 1.0) -> Cut:
        """The part, with its entries counted."""
        kept = np.zeros(source.shape[1], np.bool_)
        kept[columns] = True
        return cls(source, rows, columns, int(_loops.count(source.indptr, source.indices, rows, kept)), factor)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the part."""
        return len(self.rows), len(self.columns)

    def of_rows(self, rows: np.ndarray) -> Cut:
        """Some rows of the part."""
        return Cut.of(self.source, self.rows[rows], self.columns, self.factor)

    def over(self, columns: slice | np.ndarray, factor: float = 1.0) -> Cut:
        """The part over some of its columns, a run or bool [columns], with its entries times a factor."""
        return Cut.of(self.source, self.rows, self.columns[columns], self.factor * factor)

    def cut_out(self) -> sp.csr_matrix:
        """CSR; repeated entries stay repeated."""
        new_id = np.full(self.source.shape[1], -1, np.int64)
        new_id[self.columns] = np.arange(len(self.columns))
        rows = self.source[self.rows]
        made = select_columns(rows, new_id[rows.indices] >= 0, new_id, len(self.columns))
        return made if self.factor == 1 else made * self.factor

    def column_counts(self) -> np.ndarray:
        """int64 [columns]: entries of every column."""
        return _loops.counts(self.source.indptr, self.source.indices, self.rows, self.source.shape[1])[self.columns]


Part: TypeAlias = Cut | sp.csr_matrix


def cut_out(part: Part) -> sp.csr_matrix:
    """The matrix of a part."""
    return part.cut_out() if isinstance(part, Cut) else part


def of_rows(part: Part, rows: np.ndarray) -> Part:
    """Some rows of the part."""
    return part.of_rows(rows) if isinstance(part, Cut) else part[rows]


def over_columns(part: Part, columns: slice | np.ndarray, factor: float = 1.0) -> Part:
    """The part over some of its columns, a run or bool [columns], with its entries times a factor."""
    if isinstance(part, Cut):
        return part.over(columns, factor)
    return part[:, columns] if factor == 1 else part[:, columns] * factor


def column_counts(part: Part) -> np.ndarray:
    """int64 [columns]: entries of every column."""
    return part.column_counts() if isinstance(part, Cut) else np.bincount(part.indices, minlength=part.shape[1])


def has_entries(matrix: sp.csr_matrix, rows: np.ndarray) -> np.ndarray:
    """bool [columns]: those in which some of the rows have entries."""
    found = np.zeros(matrix.shape[1], np.bool_)
    _loops.mark(matrix.indptr, matrix.indices, rows, found)
    return found


def select_columns(rows: sp.csr_matrix, keep: np.ndarray, new_id: np.ndarray, num_columns: int) -> sp.csr_matrix:
    """The kept entries with renumbered columns; repeated entries stay repeated."""
    kept_before = np.concatenate([[0], np.cumsum(keep)])
    indptr = kept_before[rows.indptr].astype(np.int32)
    indices = new_id[rows.indices[keep]].astype(np.int32)
    return sp.csr_matrix((rows.data[keep], indices, indptr), shape=(rows.shape[0], num_columns))
