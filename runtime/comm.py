"""Halo exchange: uneven all-to-all of rows forward, their gradients back to the owners."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from planner.shard import Shard
from profiles.exchange import all_to_all
from profiles.kernels import pool
from profiles.kernels.dense import gather_rows, stack_rows
from runtime.recorder import Recorder


@dataclass
class HaloExchanger:
    """Moves rows between the workers of one group.

    Shapes: n local rows, s rows sent, h halo rows.

    Args:
        send_rows: int64 [s], local rows to send, concatenated over receivers.
        send_counts, recv_counts: rows per peer.
        num_local: n.
    """

    send_rows: Tensor
    send_counts: list[int]
    recv_counts: list[int]
    num_local: int
    recorder: Recorder

    @classmethod
    def from_shard(cls, shard: Shard, recorder: Recorder) -> HaloExchanger:
        """The exchanger of a worker's shard."""
        return cls(
            torch.from_numpy(shard.send_rows).to(recorder.device),
            shard.send_counts.tolist(),
            shard.recv_counts.tolist(),
            len(shard.vertices),
            recorder,
        )

    @property
    def is_alone(self) -> bool:
        """A single worker has nobody to exchange with."""
        return len(self.send_counts) == 1

    @property
    def num_halo(self) -> int:
        """Rows received in one exchange."""
        return sum(self.recv_counts)

    def fetch(self, x: Tensor, name: str) -> Tensor:
        """The halo rows [h, width] of `x` [n, width]. Every worker of the group must call it."""
        with self.recorder.span(f"{name}/pack/forward"):
            rows = gather_rows(x, self.send_rows)
        with self.recorder.span(f"{name}/exchange/forward", "communicate"):
            return self._all_to_all(rows, self.recv_counts, self.send_counts)

    def sends_back(self, name: str) -> bool:
        """Whether halo gradients of this exchange are to be computed, to be given back."""
        return not self.is_alone

    def give_back_(self, grad_halo: Tensor | None, grad: Tensor, name: str) -> Tensor:
        """Adds every halo row's gradient [h, width] to its owner's `grad` [n, width], in place."""
        assert grad_halo is not None
        rows = self.fetch_gradients(grad_halo, name)
        with self.recorder.span(f"{name}/unpack/backward"):
            return grad.index_add_(0, self.send_rows, rows)

    def fetch_gradients(self, grad_halo: Tensor, name: str) -> Tensor:
        """The gradients [s, width] that the receivers' halos have of the rows sent."""
        with self.recorder.span(f"{name}/exchange/backward", "communicate"):
            return self._all_to_all(grad_halo, self.send_counts, self.recv_counts)

    def _all_to_all(self, rows: Tensor, recv_counts: list[int], send_counts: list[int]) -> Tensor:
        num_rows = sum(recv_counts)
        if rows.dtype == torch.float32:
            out = pool.empty(rows.device, num_rows, *rows.shape[1:])
        else:
            out = rows.new_empty(num_rows, *rows.shape[1:])
        all_to_all(out, rows, recv_counts, send_counts)
        self.recorder.sent_bytes += rows.nbytes
        return out

    def fetch_sparse(self, indptr: Tensor, indices: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The halo rows of a CSR [n, F] as CSR parts: row lengths first, then columns and values."""
        lengths = indptr.diff()[self.send_rows]
        halo_lengths = self._all_to_all(lengths, self.recv_counts, self.send_counts)
        begins = indptr[self.send_rows]
        ends = torch.cumsum(lengths, 0)
        within = torch.arange(int(lengths.sum()), device=lengths.device) - (ends - lengths).repeat_interleave(lengths)
        entries = begins.repeat_interleave(lengths) + within
        send = [int(part.sum()) for part in lengths.split(self.send_counts)]
        recv = [int(part.sum()) for part in halo_lengths.split(self.recv_counts)]
        halo_indptr = torch.cat([halo_lengths.new_zeros(1), halo_lengths.cumsum(0)])
        columns = self._all_to_all(indices[entries], recv, send)
        return halo_indptr, columns, self._all_to_all(values[entries], recv, send)


class HaloExchange(torch.autograd.Function):
    """`x` [n, width] -> [n + h, width]: local rows, then halo rows; gradients go to the owners."""

    @staticmethod
    def forward(ctx, x: Tensor, exchanger: HaloExchanger, name: str) -> Tensor:
        """Receives the halo rows below the local ones."""
        ctx.exchanger, ctx.name = exchanger, name
        halo = exchanger.fetch(x, name)
        with exchanger.recorder.span(f"{name}/forward"):
            return stack_rows(x, halo)

    @staticmethod
    def backward(ctx, grad: Tensor):
        """Sums the gradients of all copies of a row at its owner."""
        exchanger, name = ctx.exchanger, ctx.name
        # The gradient is this pass's own fresh tensor, so the owners' rows are added to in place.
        local, halo = grad[: exchanger.num_local], grad[exchanger.num_local :]
        return exchanger.give_back_(halo.contiguous(), local, name), None, None
