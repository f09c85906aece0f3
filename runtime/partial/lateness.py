"""Who is late in the epoch that is trained, shared by all its exchanges (NeutronCloud, section 5.2)."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from torch import Tensor

from gnnplan.planner.partial import rule
from gnnplan.planner.partial.decision import PartialReduceDecision
from gnnplan.runtime.partial.mailbox import Arrival, Mailbox, PeerError
from gnnplan.runtime.partial.pace import Pace


@dataclass
class Lateness:
    """One worker's rows from its peers: the newest that are to be had, and whom it still waits for.

    Args:
        timeout_s: longest wait for rows that cannot be done without.
        closing_from: first of the epochs in which all wait for all again.
        took_part: by worker, whether it took part in the step before this epoch.
        missed: peers that missed a deadline of this epoch.
        oldest: epochs, of the oldest rows or gradients used in this epoch.
        first_epoch: of this run, which may go on from another.
        arrivals: by exchange and peer, how the rows came that were used last.
    """

    mailbox: Mailbox
    decision: PartialReduceDecision
    pace: Pace
    timeout_s: float
    closing_from: int
    took_part: list[bool]
    missed: set[int] = field(default_factory=set)
    oldest: int = 0
    first_epoch: int = 0
    arrivals: dict[str, dict[int, Arrival]] = field(default_factory=dict)
    _epoch: int | None = None

    @classmethod
    def of(cls, mailbox: Mailbox, decision: PartialReduceDecision, num_epochs: int, timeout_s: float) -> Lateness:
        """Before the first epoch of a run."""
        closing_from = decision.closing_from(num_epochs)
        return cls(mailbox, decision, Pace(decision.alpha), timeout_s, closing_from, [True] * mailbox.size)

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
        since, closing_from = self.epoch - self.first_epoch, self.closing_from - self.first_epoch
        return rule.staleness_of(since, closing_from, self.decision.max_staleness)

    def is_expected(self, peer: int) -> bool:
        """Whether anything of this epoch may still come from a peer in time."""
        return rule.is_expected(self.took_part[peer], peer in self.missed, self.mailbox.latest[peer], self.epoch)

    def send(self, name: str, rows: Tensor) -> None:
        """Has rows [s, width] sent for a step in one direction; they must not change."""
        host = rows.contiguous() if rows.device.type == "cpu" else rows.cpu()
        self.mailbox.post_rows(self.mailbox.index[name], self.epoch, host)

    def receive(self, name: str, out: Tensor) -> Tensor:
        """Waits for the newest rows to be had for a step in one direction, and copies them into `out` [h, width]."""
        slot = self.mailbox.index[name]
        self._wait(slot)
        self.arrivals[name] = self.mailbox.copy_rows(slot, out)
        versions = [arrival.version for arrival in self.arrivals[name].values()]
        self.oldest = max([self.oldest, *(self.epoch - version for version in versions)])
        self.pace.end_part(name)
        return out

    def came_s(self, name: str) -> float:
        """When the last of the rows came that were used last; now, where some were gone on without."""
        arrivals = self.arrivals[name].values()
        if any(arrival.version < self.epoch for arrival in arrivals):
            return time.monotonic()
        return max((arrival.end_s for arrival in arrivals), default=0.0)

    def _wait(self, slot: int) -> None:
        """Until all rows are here that are worth waiting for, or the deadline has passed; then for what is too old."""
        epoch, box, until_s = self.epoch, self.mailbox, self.until_s()
        staleness = min(self.staleness, box.slots[slot].max_staleness)

        def late() -> list[int]:
            return [p for p in box.senders(slot) if box.version(slot, p) < epoch and self.is_expected(p)]

        def too_old() -> list[int]:
            return [p for p in box.senders(slot) if rule.is_too_old(box.version(slot, p), epoch, staleness)]

        if staleness > 0 and not box.wait(lambda: not late(), min(self.pace.deadline_s(box.slots[slot].name), until_s)):
            self.missed.update(late())
        if not box.wait(lambda: not too_old(), until_s):
            missing = tuple(too_old())
            raise PeerError(
                f"Timed out after {self.timeout_s:.0f} s: worker {', '.join(map(str, missing))} sent no "
                f"{box.slots[slot].name} of epoch {epoch - staleness} or later",
                missing,
            )
