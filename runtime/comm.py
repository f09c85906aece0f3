"""Halo exchange: uneven all-to-all of rows forward, their gradients back to the owners."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gnnplan.planner.shard import Shard
from gnnplan.profiles.exchange import all_to_all
from gnnplan.profiles.kernels import pool
from gnnplan.profiles.kernels.dense import gather_rows, stack_rows
from gnnplan.runtime.recorder import Recorder
from gnnplan.runtime.transfer import Transfer, exchanged, exchanging


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

    def begin(self, epoch: int | None) -> None:
        """Says which epoch is trained (None: it is an evaluation); here nothing depends on it."""

    def fetch(self, x: Tensor, name: str) -> Tensor:
        """The halo rows [h, width] of `x` [n, width]. Every worker of the group must call it."""
        return self.end_fetch(self.begin_fetch(x, name, beside=False), name)

    def begin_fetch(self, x: Tensor, name: str, *, beside: bool = True) -> Transfer:
        """Packs and sends the rows that others need; with `beside` it does not wait for those that come."""
        with self.recorder.span(f"{name}/pack/forward"):
            rows = gather_rows(x, self.send_rows)
        return self._exchange(f"{name}/exchange/forward", rows, self.recv_counts, self.send_counts, beside=beside)

    def end_fetch(self, transfer: Transfer, name: str) -> Tensor:
        """The halo rows of a fetch that was begun."""
        return transfer.wait()

    def sends(self, name: str) -> bool:
        """Whether any rows of this exchange travel, forward and back."""
        return not self.is_alone

    def lets_overlap(self, name: str) -> bool:
        """Whether something else can be done while they do."""
        return self.sends(name)

    def give_back_(self, grad_halo: Tensor | None, grad: Tensor, name: str) -> Tensor:
        """Adds every halo row's gradient [h, width] to its owner's `grad` [n, width], in place."""
        return self.end_give_back_(self.begin_give_back(grad_halo, name, beside=False), grad, name)

    def begin_give_back(self, grad_halo: Tensor | None, name: str, *, beside: bool = True) -> Transfer:
        """Sends the gradients [h, width]; with `beside` it does not wait for those of the rows sent."""
        assert grad_halo is not None
        return self._exchange(f"{name}/exchange/backward", grad_halo, self.send_counts, self.recv_counts, beside=beside)

    def end_give_back_(self, transfer: Transfer, grad: Tensor, name: str) -> Tensor:
        """Adds the gradients received to `grad` [n, width], in place."""
        return self._unpack_(transfer.wait(), grad, name)

    def _unpack_(self, rows: Tensor, grad: Tensor, name: str) -> Tensor:
        with self.recorder.span(f"{name}/unpack/backward"):
            return grad.index_add_(0, self.send_rows, rows)

    def _exchange(
        self, key: str, rows: Tensor, recv_counts: list[int], send_counts: list[int], *, beside: bool
    ) -> Transfer:
        out = pool.empty(rows.device, sum(recv_counts), *rows.shape[1:])
        self.recorder.sent_bytes += rows.nbytes
        exchange = exchanging if beside else exchanged
        return exchange(out, rows, recv_counts, send_counts, self.recorder, key)

    def _all_to_all(self, rows: Tensor, recv_counts: list[int], send_counts: list[int]) -> Tensor:
        out = rows.new_empty(sum(recv_counts), *rows.shape[1:])
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
