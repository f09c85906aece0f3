"""Halo rows kept from one epoch to the next, so that most epochs need not exchange them.

Embeddings are exchanged in epochs that the refresh interval r divides. In between a receiver aggregates the rows it
received last, and an owner adds the gradients it received last of the rows it sent: both are at most r - 1 steps
old. Stale gradients are used rather than none, since where the weights come to rest both are those of the exact
model, and its gradient is what has vanished; dropping them would leave a bias however small the steps are
(PipeGCN, Wan et al. 2022, proves convergence with both stale). Fixed inputs are received once and are never stale.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from planner.joint_cache.decision import CacheDecision, Travel
from planner.program import Program, Step
from planner.shard import Shard
from profiles.kernels import pool
from profiles.kernels.dense import gather_rows
from runtime.comm import HaloExchanger
from runtime.recorder import Recorder
from runtime.transfer import Transfer


@dataclass
class CachingExchanger(HaloExchanger):
    """A `HaloExchanger` that follows a cache decision; by itself it acts as in an evaluation, which keeps nothing.

    Shapes: k of the h halo rows are kept, and of the s rows sent those that their receivers keep.

    Args:
        cache: what is kept, and when it is refreshed.
        steps: of the program, by name.
        fresh: exchanges the rows that are not kept.
        kept_halo, fresh_halo: int64, positions in the halo.
        kept_sent, kept_send_rows: int64, positions in the rows sent, and which local rows these are.
    """

    cache: CacheDecision
    steps: dict[str, Step]
    fresh: HaloExchanger
    kept_halo: Tensor
    fresh_halo: Tensor
    kept_sent: Tensor
    kept_send_rows: Tensor
    _epoch: int | None = None
    _rows: dict[str, Tensor] = field(default_factory=dict)
    _gradients: dict[str, Tensor] = field(default_factory=dict)

    @classmethod
    def of(cls, shard: Shard, program: Program, cache: CacheDecision, recorder: Recorder) -> CachingExchanger:
        """The exchanger of a worker's shard, cut along the same decision."""

        def where(mask: np.ndarray) -> Tensor:
            return torch.from_numpy(np.flatnonzero(mask)).to(recorder.device)

        def num_fresh(kept: np.ndarray, counts: np.ndarray) -> list[int]:
            peer = np.repeat(np.arange(len(counts)), counts)
            return np.bincount(peer[~kept], minlength=len(counts)).tolist()

        whole = HaloExchanger.from_shard(shard, recorder)
        fresh = HaloExchanger(
            whole.send_rows[where(~shard.kept_sent)],
            num_fresh(shard.kept_sent, shard.send_counts),
            num_fresh(shard.kept_halo, shard.recv_counts),
            whole.num_local,
            recorder,
        )
        return cls(
            whole.send_rows,
            whole.send_counts,
            whole.recv_counts,
            whole.num_local,
            recorder,
            cache,
            {step.name: step for step in program.steps},
            fresh,
            where(shard.kept_halo),
            where(~shard.kept_halo),
            where(shard.kept_sent),
            whole.send_rows[where(shard.kept_sent)],
        )

    def begin(self, epoch: int | None) -> None:
        """Says which epoch is trained (None: it is an evaluation)."""
        self._epoch = epoch

    def begin_fetch(self, x: Tensor, name: str, *, beside: bool = True) -> Transfer:
        """Sends what travels of the rows that others need; kept ones are those received last."""
        match self._travel(name):
            case "none":
                return Transfer(self._rows[name])
            case "fresh":
                return self.fresh.begin_fetch(x, f"{name}/fresh", beside=beside)
        if self._keeps(name):
            self._rows.pop(name, None)  # its memory serves the new rows
        return super().begin_fetch(x, name, beside=beside)

    def end_fetch(self, transfer: Transfer, name: str) -> Tensor:
        """The halo rows [h, width], received and kept ones together."""
        received, travel = transfer.wait(), self._travel(name)
        if travel == "fresh":
            return self._reuse(received, name)
        if travel == "all" and self._keeps(name):
            self._rows[name] = self._part(received, self.kept_halo, f"{name}/keep/forward")
        return received

    def _reuse(self, received: Tensor, name: str) -> Tensor:
        with self.recorder.span(f"{name}/reuse/forward"):
            halo = pool.empty(received.device, self.num_halo, received.shape[1])
            halo.index_copy_(0, self.fresh_halo, received)
            return halo.index_copy_(0, self.kept_halo, self._rows[name])

    def sends(self, name: str) -> bool:
        """Whether any rows travel in this epoch, forward and back."""
        return super().sends(name) and self._travel(name) != "none"

    def begin_give_back(self, grad_halo: Tensor | None, name: str, *, beside: bool = True) -> Transfer:
        """Sends the gradients of halo rows that travel in this epoch."""
        match self._travel(name):
            case "none":
                return Transfer(self._gradients[name])
            case "fresh":
                assert grad_halo is not None
                with self.recorder.span(f"{name}/fresh/pack/backward"):
                    rows = gather_rows(grad_halo, self.fresh_halo)
                return self.fresh.begin_give_back(rows, f"{name}/fresh", beside=beside)
        self._gradients.pop(name, None)
        return super().begin_give_back(grad_halo, name, beside=beside)

    def end_give_back_(self, transfer: Transfer, grad: Tensor, name: str) -> Tensor:
        """Adds the gradients of all copies of a row to its owner's, those of kept rows as they were received last."""
        travel = self._travel(name)
        if travel == "all":
            grad = super().end_give_back_(transfer, grad, name)
            if self._keeps(name):
                self._gradients[name] = self._part(transfer.out, self.kept_sent, f"{name}/keep/backward")
            return grad
        if travel == "fresh":
            self.fresh.end_give_back_(transfer, grad, f"{name}/fresh")
        with self.recorder.span(f"{name}/reuse/backward"):
            return grad.index_add_(0, self.kept_send_rows, self._gradients[name])

    def _part(self, received: Tensor, kept: Tensor, key: str) -> Tensor:
        """The kept rows of what was received: itself where nobody has fresh ones beside them."""
        if not any(map(any, self.cache.fresh_counts)):
            return received
        with self.recorder.span(key):
            return gather_rows(received, kept)

    def _keeps(self, name: str) -> bool:
        step = self.steps.get(name)
        return step is not None and self.cache.keeps(step) and (step.fixed or self._epoch is not None)

    def _travel(self, name: str) -> Travel:
        """What is sent; a fixed step's rows are known once they are here, other steps' are never reused to evaluate."""
        if not self._keeps(name) or (self.steps[name].fixed and name not in self._rows):
            return "all"
        return self.cache.travel(self.steps[name], refresh=self._epoch is None or self.cache.refreshes(self._epoch))
