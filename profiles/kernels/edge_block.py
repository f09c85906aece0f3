"""The edges of an aggregation block, listed by target and by source, for operators with a coefficient an edge."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

NEGATIVE_SLOPE = 0.2
"""Of GAT's leaky ReLU (Velickovic et al. 2018, equation 3)."""


@dataclass(frozen=True)
class EdgeBlock:
    """Edges by target (`indptr`, `source`, `target`) and by source (`by_source_ptr`, `by_source_edge`)."""

    indptr: Tensor
    source: Tensor
    target: Tensor
    by_source_ptr: Tensor
    by_source_edge: Tensor

    @classmethod
    def from_csr(cls, matrix: sp.csr_matrix, device: torch.device | str = "cpu") -> EdgeBlock:
        """From a CSR [n, m] whose entries are the edges; values are not used."""
        source = matrix.indices.astype(np.int64)
        target = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        counts = np.bincount(source, minlength=matrix.shape[1])
        by_source = np.argsort(source, kind="stable")
        by_source_ptr = np.concatenate([[0], np.cumsum(counts)])
        arrays = (matrix.indptr.astype(np.int64), source, target, by_source_ptr, by_source)
        return cls(*(torch.from_numpy(array).to(device) for array in arrays))

    def to(self, device: torch.device) -> EdgeBlock:
        """A copy on a device, which may still be under way: the device itself waits for it."""
        return EdgeBlock(*(each.to(device, non_blocking=True) for each in vars(self).values()))
