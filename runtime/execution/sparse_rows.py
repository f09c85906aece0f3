"""Rows of sparse input features on their way through a program."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from gnnplan.profiles.kernels.activation import keep_mask
from gnnplan.profiles.kernels.sparse import csr_tensor


@dataclass(frozen=True)
class SparseRows:
    """CSR [n, F] on the host; on the device, once a product asks for it, by rows and by columns.

    Moving and aggregating sparse rows happens before training alone, so it is scipy's work.
    """

    matrix: sp.csr_matrix
    device: torch.device

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

    def dropped(self, ids: np.ndarray, key: int, probability: float) -> SparseRows:
        """Without what dropout drops; an entry that is not stored is zero anyway."""
        matrix = self.matrix
        rows = np.repeat(ids, np.diff(matrix.indptr))
        width = matrix.shape[1]
        kept = keep_mask(
            key, torch.from_numpy(rows), torch.from_numpy(matrix.indices.astype(np.int64)), width, probability
        )
        data = matrix.data * kept.numpy() * np.float32(1.0 / (1.0 - probability))
        return self.of(sp.csr_matrix((data, matrix.indices, matrix.indptr), shape=matrix.shape))
