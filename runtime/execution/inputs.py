"""A worker's rows of the inputs, on its device."""

from __future__ import annotations

from typing import Any

import scipy.sparse as sp
import torch
from torch import Tensor

from gnnplan.runtime.execution.sparse_rows import SparseRows


def on_device(value: Any, device: torch.device) -> Tensor | SparseRows:
    """Dense rows as a tensor, scipy's CSR as sparse rows."""
    return SparseRows(value, device) if sp.issparse(value) else torch.from_numpy(value).to(device)
