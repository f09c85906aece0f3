"""Torch's CSR tensors of scipy's matrices."""

from __future__ import annotations

import warnings

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

# torch prints a beta notice once per process for CSR tensors; it says nothing a user can act on.
warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
torch.sparse.check_sparse_tensor_invariants.disable()


def csr_tensor(matrix: sp.csr_matrix, device: torch.device | str = "cpu") -> Tensor:
    """A torch CSR tensor with int32 indices, which both MKL and cuSPARSE take as they are."""
    assert matrix.nnz < 2**31, "a worker's block must hold fewer than 2^31 edges"
    return torch.sparse_csr_tensor(
        torch.from_numpy(matrix.indptr.astype(np.int32, copy=False)),
        torch.from_numpy(matrix.indices.astype(np.int32, copy=False)),
        torch.from_numpy(matrix.data.astype(np.float32, copy=False)),
        size=matrix.shape,
    ).to(device)
