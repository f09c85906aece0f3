"""Halo rows kept from one epoch to the next, so that most epochs need not exchange them.

Embeddings are exchanged in epochs that the refresh interval r divides. In between a receiver aggregates the rows it
received last, and an owner adds the gradients it received last of the rows it sent: both are at most r - 1 steps
old. Stale gradients are used rather than none, since where the weights come to rest both are those of the exact
model, and its gradient is what has vanished; dropping them would leave a bias however small the steps are
(PipeGCN, Wan et al. 2022, proves convergence with both stale). Fixed inputs are received once and are never stale.

Kept rows lie on the device, or in the region that the workers of a host share (`gnnplan.runtime.shared_halo`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from gnnplan.planner.joint_cache.decision import CacheDecision, Travel
from gnnplan.planner.shard import Shard
from gnnplan.planner.steps import Program, Step
from gnnplan.profiles.kernels import pool
from gnnplan.profiles.kernels.dense import gather_rows
from gnnplan.runtime.comm import HaloExchanger
from gnnplan.runtime.host_region import HostRegion
from gnnplan.runtime.recorder import Recorder
from gnnplan.runtime.shared_halo import SharedHalo, part_of
from gnnplan.runtime.transfer import Transfer


@dataclass
class CachingExchanger(HaloExchanger):
    """A `HaloExchanger` that follows a cache decision; by itself it acts as in an evaluation, which keeps nothing.

    Shapes: k of the h halo rows are kept on the device, and of the s rows sent those that their receivers keep.

    Args:
        cache: what is kept, and when it is refreshed.
        steps: of the program, by name.
        fresh: exchanges the rows that are not kept.
        kept_halo, fresh_halo: int64, positions in the halo: kept on the device, kept nowhere.
        kept_sent, kept_send_rows: int64, positions in the rows sent, and which local rows these are.
        shared: finds the rows that the host keeps (None: it keeps none).
    """

    cache: CacheDecision
    steps: dict[str, Step]
    fresh: HaloExchanger
    kept_halo: Tensor
    fresh_halo: Tensor
    kept_sent: Tensor
    kept_send_rows: Tensor
    shared: SharedHalo | None = None
    _epoch: int | None = None
    _rows: dict[str, Tensor] = field(default_factory=dict)
    _gradients: dict[str, Tensor] = field(default_factory=dict)

    @classmethod
    def of(
        cls, shard: Shard, program: Program, cache: CacheDecision, recorder: Recorder, region: HostRegion | None = None
    ) -> CachingExchanger:
        """The exchanger of a worker's shard, cut along the same decision.

        Args:
            region: of its host, where the decision has any.
        """
        assert (region is None) == (cache.region is None), "the decision and the run differ in sharing halo rows"

        def where(mask: np.ndarray) -> Tensor:
            return torch.from_numpy(np.flatnonzero(mask)).to(recorder.device)

        whole = HaloExchanger.from_shard(shard, recorder)
        return cls(
            whole.send_rows,
            whole.send_counts,
            whole.recv_counts,
            whole.num_local,
            recorder,
            cache,
            {step.name: step for step in program.steps},
            part_of(whole, shard, ~shard.kept_sent, ~shard.kept_halo),
            where(shard.kept_halo & (shard.shared_halo < 0)),
            where(~shard.kept_halo),
            where(shard.kept_sent),
            whole.send_rows[where(shard.kept_sent)],
            SharedHalo.of(shard, region, whole) if region else None,
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
            if self.shared:
                return Transfer(self.shared.exchange(x, name, self._version(name)))
        return super().begin_fetch(x, name, beside=beside)

    def end_fetch(self, transfer: Transfer, name: str) -> Tensor:
        """The halo rows [h, width], received and kept ones together."""
        travel = self._travel(name)
        if travel == "fresh" or (travel == "none" and self.shared):
            return self._reuse(transfer, name, travel)
        received = transfer.wait()
        if travel == "all" and self._keeps(name):
            copies = self.cache.has_fresh or self.shared is not None
            self._rows[name] = self._part(received, self.kept_halo, f"{name}/keep/forward", copies=copies)
        return received

    def _reuse(self, transfer: Transfer, name: str, travel: Travel) -> Tensor:
        received, kept = transfer.wait(), self._rows[name]
        with self.recorder.span(f"{name}/reuse/forward"):
            halo = pool.empty(kept.device, self.num_halo, kept.shape[1])
            if travel == "fresh":
                halo.index_copy_(0, self.fresh_halo, received)
            del received  # its memory serves what is found next
            halo.index_copy_(0, self.kept_halo, kept)
            if self.shared:
                self.shared.find(halo, name, self._version(name))
            return halo

    def sends(self, name: str) -> bool:
        """Whether any rows travel in this epoch, forward and back."""
        return super().sends(name) and self._travel(name) != "none"

    def lets_overlap(self, name: str) -> bool:
        """Whether they travel on their own, as `CacheDecision.lets_overlap` has it."""
        return self.sends(name) and not (self.shared and self._keeps(name))

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
            rows = transfer.wait()
            self._unpack_(rows, grad, name)
            if self._keeps(name):
                key, copies = f"{name}/keep/backward", self.cache.has_fresh
                self._gradients[name] = self._part(rows, self.kept_sent, key, copies=copies)
            return grad
        if travel == "fresh":
            self.fresh.end_give_back_(transfer, grad, f"{name}/fresh")
        with self.recorder.span(f"{name}/reuse/backward"):
            return grad.index_add_(0, self.kept_send_rows, self._gradients[name])

    def _part(self, received: Tensor, kept: Tensor, key: str, *, copies: bool) -> Tensor:
        """The kept rows of what was received: itself where nobody has others beside them."""
        if not copies:
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

    def _version(self, name: str) -> int:
        """Of a step's rows in the region: they change with every refresh, what is fixed never does."""
        if self._epoch is None or self.steps[name].fixed:
            return 1
        return 1 + self._epoch - self._epoch % self.cache.refresh_interval
