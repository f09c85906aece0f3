"""Rows of sparse input features on their way through a program."""

from __future__ import annotations

from functools import cached_property

import scipy.sparse as sp
import torch
from torch import Tensor

from gnnplan.profiles.kernels.activation import keep_mask
from gnnplan.profiles.kernels.csr import csr_tensor


class SparseRows:
    """CSR [n, F] on the host; on the device, once a product asks for it, by rows and by columns.

    Moving and aggregating sparse rows happens before training alone, so it is scipy's work.
    """

    def __init__(self, matrix: sp.csr_matrix, device: torch.device) -> None:
        self._matrix, self.device = matrix, device

    @property
    def matrix(self) -> sp.csr_matrix:
        """On the host."""
        return self._matrix

    @cached_property
    def rows(self) -> Tensor:
        """CSR [n, F]."""
        return csr_tensor(self.matrix, self.device)

    @cached_property
    def columns(self) -> Tensor:
        """CSR [F, n], which a weight's gradient needs."""
        return csr_tensor(self.matrix.T.tocsr(), self.device)

    def of(self, matrix: sp.spmatrix) -> SparseRows:
        """Other rows on the same device."""
        return SparseRows(sp.csr_matrix(matrix), self.device)

    def dropped(self, vertices: Tensor, key: int, probability: float) -> SparseRows:
        """Without what dropout drops, `vertices` int64 [n]; an entry that is not stored is zero anyway."""
        return _Dropped(self, vertices, key, probability)


class _Dropped(SparseRows):
    """Both layouts are dropped on the device where they lie, every epoch, instead of transposing anew."""

    def __init__(self, whole: SparseRows, vertices: Tensor, key: int, probability: float) -> None:
        self.device = whole.device
        self.rows = drop_values(whole.rows, vertices, key, probability, transposed=False)
        self.columns = drop_values(whole.columns, vertices, key, probability, transposed=True)

    @property
    def matrix(self) -> sp.csr_matrix:
        """On the host."""
        rows = self.rows.cpu()
        parts = (rows.values(), rows.col_indices(), rows.crow_indices())
        return sp.csr_matrix(tuple(part.numpy() for part in parts), shape=tuple(rows.shape))


def drop_values(matrix: Tensor, vertices: Tensor, key: int, probability: float, *, transposed: bool) -> Tensor:
    """Dropout on the stored entries of a CSR [n, F], or with `transposed` [F, n]."""
    lengths, inner = matrix.crow_indices().diff(), matrix.col_indices().long()
    numbers = torch.arange(matrix.shape[0], device=matrix.device)
    outer = numbers.repeat_interleave(lengths, output_size=len(inner))  # of unknown size the host would wait for it
    rows, columns = (inner, outer) if transposed else (outer, inner)
    width = matrix.shape[0] if transposed else matrix.shape[1]
    kept = keep_mask(key, vertices[rows], columns, width, probability)
    values = matrix.values() * kept * (1.0 / (1.0 - probability))
    return torch.sparse_csr_tensor(matrix.crow_indices(), matrix.col_indices(), values, size=matrix.shape)
