"""Halo exchange that goes on with old rows and gradients where new ones come too late (NeutronCloud, section 5.2)."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from torch import Tensor

from planner.partial import rule
from planner.partial.decision import PartialReduceDecision
from profiles.kernels import pool
from profiles.kernels.dense import gather_rows
from runtime.comm import HaloExchanger
from runtime.partial.mailbox import Mailbox, PeerError
from runtime.partial.pace import Pace
from runtime.transfer import Transfer


@dataclass
class PartialExchanger(HaloExchanger):
    """A `HaloExchanger` over a mailbox; before the first epoch and in evaluations it exchanges as that does.

    Args:
        timeout_s: longest wait for rows that cannot be done without.
        took_part: by worker, whether it took part in the step before this epoch.
        missed: peers that missed a deadline of this epoch.
        oldest: epochs, of the oldest rows or gradients used in this epoch.
    """

    mailbox: Mailbox
    decision: PartialReduceDecision
    pace: Pace
    timeout_s: float
    took_part: list[bool]
    missed: set[int] = field(default_factory=set)
    oldest: int = 0
    _epoch: int | None = None

    @classmethod
    def over(
        cls,
        plain: HaloExchanger,
        mailbox: Mailbox,
        decision: PartialReduceDecision,
        *,
        timeout_s: float,
    ) -> PartialExchanger:
        """The same exchange over a mailbox."""
        return cls(
            plain.send_rows,
            plain.send_counts,
            plain.recv_counts,
            plain.num_local,
            plain.recorder,
            mailbox,
            decision,
            Pace(decision.alpha),
            timeout_s,
            [True] * mailbox.size,
        )

    def begin(self, epoch: int | None) -> None:
        """Says which epoch is trained (None: it is an evaluation); saying it again changes nothing."""
        is_new, self._epoch = epoch != self._epoch, epoch
        if epoch is not None and is_new:
            self.pace.begin(epoch)
            self.missed.clear()
            self.oldest = 0

    @property
    def epoch(self) -> int:
        """The epoch that is trained."""
        assert self._epoch is not None
        return self._epoch

    def until_s(self) -> float:
        """Until when (monotonic clock) what cannot be done without is waited for."""
        return time.monotonic() + self.timeout_s

    @property
    def staleness(self) -> int:
        """How old rows may be in this epoch."""
        return rule.staleness_of(self.epoch, self.decision.max_staleness)

    def is_expected(self, peer: int) -> bool:
        """Whether anything of this epoch may still come from a peer in time."""
        return rule.is_expected(self.took_part[peer], peer in self.missed, self.mailbox.latest[peer], self.epoch)

    def begin_fetch(self, x: Tensor, name: str, *, beside: bool = True) -> Transfer:
        """The newest halo rows [h, width] of `x` [n, width] that are to be had: it waits for them."""
        if self._epoch is None:
            return super().begin_fetch(x, name, beside=beside)
        with self.recorder.span(f"{name}/pack/forward"):
            rows = gather_rows(x, self.send_rows)
        with self.recorder.span(f"{name}/exchange/forward", "communicate"):
            return Transfer(self._newest(f"{name}/forward", rows))

    def begin_give_back(self, grad_halo: Tensor | None, name: str, *, beside: bool = True) -> Transfer:
        """The newest gradients [s, width] to be had that the receivers' halos have of the rows sent."""
        assert grad_halo is not None
        with self.recorder.span(f"{name}/exchange/backward", "communicate"):
            return Transfer(self._newest(f"{name}/backward", grad_halo))

    def _newest(self, name: str, rows: Tensor) -> Tensor:
        slot = self.mailbox.index[name]
        self.mailbox.post_rows(slot, self.epoch, rows.contiguous() if rows.device.type == "cpu" else rows.cpu())
        self.recorder.sent_bytes += rows.nbytes
        out = pool.empty(rows.device, sum(self.mailbox.slots[slot].recv_counts), rows.shape[1])
        self._wait(slot)
        versions = self.mailbox.copy_rows(slot, out)
        self.oldest = max([self.oldest, *(self.epoch - version for version in versions)])
        self.pace.end_part(name)
        return out

    def _wait(self, slot: int) -> None:
        """Until all rows are here that are worth waiting for, or the deadline has passed; then for what is too old."""
        epoch, box, until_s = self.epoch, self.mailbox, self.until_s()

        def late() -> list[int]:
            return [p for p in box.senders(slot) if box.version(slot, p) < epoch and self.is_expected(p)]

        def too_old() -> list[int]:
            return [p for p in box.senders(slot) if rule.is_too_old(box.version(slot, p), epoch, self.staleness)]

        if self.staleness > 0 and not box.wait(
            lambda: not late(), min(self.pace.deadline_s(box.slots[slot].name), until_s)
        ):
            self.missed.update(late())
        if not box.wait(lambda: not too_old(), until_s):
            names = ", ".join(map(str, too_old()))
            raise PeerError(
                f"Timed out after {self.timeout_s:.0f} s: worker {names} sent no {box.slots[slot].name} "
                f"of epoch {epoch - self.staleness} or later"
            )
