"""Aggregating the input features once, before the first epoch, dense or sparse."""

from __future__ import annotations

import scipy.sparse as sp
import torch
from torch import Tensor

from gnnplan.planner.shard import Shard
from gnnplan.profiles.kernels.sparse import csr_tensor, spmm, spmm_add_
from gnnplan.runtime.comm import HaloExchanger
from gnnplan.runtime.operators import Block, SparseInput

Value = Tensor | SparseInput


def input_value(x, device: torch.device) -> Value:
    """The shard's features on the device, dense or CSR with its transpose."""
    if sp.issparse(x):
        return SparseInput(csr_tensor(x, device), csr_tensor(x.T.tocsr(), device))
    return torch.from_numpy(x).to(device)


def precompute_hops(shard: Shard, block: Block, num_hops: int) -> dict[str, Value]:
    """`x0 = X` and `x{k} = A^k X` for k = 1..num_hops; each hop costs one exchange."""
    device = block.exchanger.send_rows.device
    first = input_value(shard.x, device)
    values: dict[str, Value] = {"x0": first}
    if isinstance(first, SparseInput):
        rows = shard.x
        for hop in range(1, num_hops + 1):
            rows = _sparse_hop(shard, block.exchanger, rows)
            values[f"x{hop}"] = input_value(rows, device)
        return values
    for hop in range(1, num_hops + 1):
        first = values[f"x{hop}"] = _dense_hop(block, first, f"precompute/hop{hop}")
    return values


def _dense_hop(block: Block, x: Tensor, name: str) -> Tensor:
    out = spmm(block.local, x)
    if not block.exchanger.is_alone:
        spmm_add_(out, block.remote, block.exchanger.fetch(x, name))
    return out


def _sparse_hop(shard: Shard, exchanger: HaloExchanger, x: sp.csr_matrix) -> sp.csr_matrix:
    out = shard.local @ x
    if not exchanger.is_alone:
        device = exchanger.send_rows.device
        parts = (torch.from_numpy(part).to(device) for part in (x.indptr, x.indices, x.data))
        indptr, indices, values = exchanger.fetch_sparse(*parts)
        halo = sp.csr_matrix(
            (values.cpu().numpy(), indices.cpu().numpy(), indptr.cpu().numpy()),
            shape=(exchanger.num_halo, x.shape[1]),
        )
        out = out + shard.remote @ halo
    return sp.csr_matrix(out)
