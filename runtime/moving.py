"""`GCNConv` with moving aggregates, to swap for PyG's in a module of one's own, on one device.

A step pushes one chunk of the vertices, as a plan with source chunks does (`docs/techniques/source_chunks.md`):

    chunks = SourceChunks(num_chunks=10, seed=0)
    conv = MovingGCNConv(64, 32, chunks=chunks)     # in place of GCNConv(64, 32)
    for step in range(100):
        loss(model(x, edge_index)).backward()       # the whole graph
        optimizer.step()
        chunks.step()                               # the next chunk, in all layers

In evaluation mode it is `GCNConv`, and touches no state. States are not in the `state_dict`, whose keys are PyG's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.nn import GCNConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from gnnplan.planner.chunks.cut import take_apart
from gnnplan.planner.chunks.draw import Draws, chunk_of, edges_from
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.kernels.csr import csr_tensor
from gnnplan.profiles.kernels.sparse import spmm


@dataclass
class SourceChunks:
    """Which chunk of the vertices pushes now, for all layers that were given it.

    Args:
        num_chunks: B; 1 is full-batch training.
        seed, draws: of the division, as a plan's.
        fade: what is left of a state counts so many times as much as the paper has it (1), beside the chunk's rows.
        number: the present step's.
    """

    num_chunks: int
    seed: int = 0
    draws: Draws = "balanced"
    fade: float = 1.0
    number: int = 0

    def __post_init__(self) -> None:
        if self.num_chunks < 1:
            raise UserError(f"num_chunks is {self.num_chunks}; it must be 1 or more")
        if not 0 < self.fade <= 1:
            raise UserError(f"fade is {self.fade}; it must be above 0 and at most 1")

    def step(self) -> None:
        """The next chunk's turn. Call it after the optimizer's step."""
        self.number += 1

    @property
    def present(self) -> int:
        """The chunk that pushes."""
        return self.number % self.num_chunks


class MovingGCNConv(GCNConv):
    """PyG's `GCNConv`, whose sums move by a chunk a step while it trains.

    Its input is the whole graph, the same in every step.

    Args:
        args, others: of `GCNConv`.
        chunks: one object for all layers of a model.
    """

    def __init__(self, *args: Any, chunks: SourceChunks, **others: Any) -> None:
        super().__init__(*args, **others)
        if self.flow != "source_to_target":
            raise UserError('MovingGCNConv knows the flow "source_to_target" alone')
        self.chunks = chunks
        self._graph: tuple[Tensor, Tensor | None] | None = None
        self._parts: _Parts | None = None
        self.state: Tensor | None
        self.mean: Tensor | None
        for name in ("state", "mean"):  # of the sums, and of the rows that are summed
            self.register_buffer(name, None, persistent=False)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """[N, out_channels] of x [N, in_channels] and edge_index [2, E]."""
        if not self.training or self.chunks.num_chunks == 1:
            return super().forward(x, edge_index, edge_weight)
        if edge_weight is not None and edge_weight.requires_grad:
            raise UserError("MovingGCNConv has no gradient for edge_weight; detach it, or use GCNConv")
        parts, z = self._parts_of(x, edge_index, edge_weight), self.lin(x)
        pushed, transposed, left = parts.of_chunk[self.chunks.present]
        moved, mean = _Product.apply(z, pushed, transposed), z.detach().mean(0, keepdim=True)
        state, last = (0.0, 0.0) if self.state is None or self.mean is None else (self.state, self.mean)
        moved = moved + left * (state + parts.sums * (mean - last))
        self.state, self.mean = moved.detach(), mean
        out = moved + parts.loops * z
        return out if self.bias is None else out + self.bias

    def _parts_of(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> _Parts:
        """The aggregation in parts, cut again where another graph is given; a state of it is none of the other's."""
        if self._parts is None or self._graph is None or not _are_same(self._graph, (edge_index, edge_weight)):
            self._graph, self.state, self.mean = (edge_index, edge_weight), None, None
            self._parts = _Parts.of(self._matrix(x, edge_index, edge_weight), self.chunks, x.device)
        return self._parts

    def _matrix(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> sp.csr_matrix:
        if self.normalize:
            edge_index, edge_weight = gcn_norm(
                edge_index, edge_weight, len(x), self.improved, self.add_self_loops, self.flow, x.dtype
            )
        source, target = edge_index.cpu().numpy()
        weight = np.ones(len(source), np.float32) if edge_weight is None else edge_weight.detach().cpu().numpy()
        # Repeated edges become one, as in a plan.
        return sp.csr_matrix((weight.astype(np.float32), (target, source)), shape=(len(x), len(x)))


def _are_same(one: tuple[Tensor, Tensor | None], other: tuple[Tensor, Tensor | None]) -> bool:
    """Whether two graphs are the same tensors, or equal ones; what changes in place is not noticed."""
    return _are_equal(one[0], other[0]) and _are_equal(one[1], other[1])


def _are_equal(one: Tensor | None, other: Tensor | None) -> bool:
    if one is None or other is None or one is other:
        return one is other
    return (one.device, one.dtype) == (other.device, other.dtype) and torch.equal(one, other)


@dataclass
class _Parts:
    """Of every chunk its matrix, that transposed, and [N, 1] what is left of states.

    Args:
        loops, sums: [N, 1] weights of self loops, and sums of all others.
    """

    of_chunk: list[tuple[Tensor, Tensor, Tensor]]
    loops: Tensor
    sums: Tensor

    @classmethod
    def of(cls, matrix: sp.csr_matrix, chunks: SourceChunks, device: torch.device) -> _Parts:
        """Cut on the host, once."""
        chunk = chunk_of(edges_from([matrix]), chunks.num_chunks, chunks.seed, draws=chunks.draws)
        parts = take_apart(matrix, (chunk,), chunks.num_chunks, chunks.fade)
        of_chunk = [
            (csr_tensor(pushed, device), csr_tensor(pushed.T.tocsr(), device), _column(left.data, device))
            for pushed, left in zip(parts.pushed[:-1], parts.left[:-1], strict=True)
        ]
        return cls(of_chunk, _column(parts.loops.diagonal(), device), _column(parts.sums.data, device))


def _column(values: np.ndarray, device: torch.device) -> Tensor:
    return torch.from_numpy(values.astype(np.float32)).to(device)[:, None]


class _Product(torch.autograd.Function):
    """A sparse matrix times rows, with gradients at the rows."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Tensor, transposed: Tensor) -> Tensor:
        ctx.transposed = transposed
        return spmm(matrix, x.contiguous())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return spmm(ctx.transposed, grad.contiguous()), None, None
