"""The large tensors of one worker's halo exchanges.

Made and dropped as `gnnplan.runtime.comm` and `gnnplan.runtime.halo_cache` do it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gnnplan.planner.joint_cache.decision import CacheDecision, Travel
from gnnplan.planner.shapes import WorkerShape
from gnnplan.planner.steps import Program, Step

if TYPE_CHECKING:
    from gnnplan.planner.buffers import Buffers


def kept_fixed(program: Program, cache: CacheDecision) -> list[Step]:
    """The steps whose halo rows never change and are kept: they are run once before training."""
    return [step for step in program.steps if step.op == "aggregate" and step.fixed and cache.keeps(step)]


@dataclass
class HaloBuffers:
    """Counts what is received and what is kept of it from one epoch to the next; the host's region is no device's.

    Args:
        rank: of the worker whose `shape` it is.
        refresh: whether the epoch sends all embeddings.
    """

    buffers: Buffers
    shape: WorkerShape
    cache: CacheDecision
    rank: int
    refresh: bool = True
    _kept: dict[str, int] = field(default_factory=dict)
    _travelling: tuple[int, int] = (0, 0)

    def have_fixed(self, program: Program) -> None:
        """What never changes is here before the first epoch."""
        for step in kept_fixed(program, self.cache):
            self._kept[step.name] = self.buffers.make(self.cache.num_rows[self.rank] * step.in_width)

    def fetch(self, step: Step) -> int:
        """The buffer of the halo rows, one holder more."""
        self.begin_fetch(step)
        return self.end_fetch(step)

    def begin_fetch(self, step: Step) -> None:
        """Packs what is sent, and makes room for what is received; what hosts share is exchanged at the end."""
        match self._travel(step):
            case "all":
                self._drop_kept(step.name)
                if not self.cache.shares(step):
                    self._send(self.shape.num_sent, self.shape.num_halo, step.in_width)
            case "fresh":
                self._send(self._fresh_sent, self._fresh_halo, step.in_width)

    def end_fetch(self, step: Step) -> int:
        """All has been sent and received: the buffer of the halo rows, one holder more."""
        width, shares = step.in_width, self.cache.shares(step)
        match self._travel(step):
            case "all":
                halo = self._fill(width) if shares else self._arrive()
                num_kept = self.cache.num_rows[self.rank] if self.cache.num_rows else 0
                self._keep(step, step.name, halo, num_kept, copies=shares or self.cache.has_fresh)
                return halo
            case "fresh":
                received = self._arrive()
                halo = self.buffers.make(self.shape.num_halo * width)
                self.buffers.drop(received)
            case "none" if shares:
                halo = self.buffers.make(self.shape.num_halo * width)
            case "none":
                kept = self._kept[step.name]
                self.buffers.hold(kept)
                return kept
        if shares:
            num_found = self.shape.num_halo - self._fresh_halo - self.cache.num_rows[self.rank]
            self.buffers.drop(self.buffers.make(num_found * width))
        return halo

    def _fill(self, width: int) -> int:
        """The halo put together from what is received, and then what is found in the host's region."""
        assert self.cache.region is not None
        counts, rank = self.cache.region.sent_counts, self.rank
        num_received = sum(row[rank] for row in counts)
        self._send(sum(counts[rank]), num_received, width)
        received = self._arrive()
        halo = self.buffers.make(self.shape.num_halo * width)
        self.buffers.drop(received)
        self.buffers.drop(self.buffers.make((self.shape.num_halo - num_received) * width))
        return halo

    def give_back(self, step: Step) -> None:
        """The gradients received of rows sent; those of the halo itself are the caller's."""
        width, name = step.in_width, f"{step.name}/gradients"
        match self.cache.travel(step, refresh=self.refresh):
            case "all":
                self._drop_kept(name)
                rows = self.buffers.make(self.shape.num_sent * width)
                num_kept = self.shape.num_sent - self._fresh_sent
                self._keep(step, name, rows, num_kept, copies=self.cache.has_fresh)
                self.buffers.drop(rows)
            case "fresh":
                packed = self.buffers.make(self._fresh_halo * width)
                self.buffers.drop(self.buffers.make(self._fresh_sent * width), packed)

    def lets_overlap(self, step: Step) -> bool:
        """Whether a step's halo rows travel on their own."""
        return self._travel(step) != "none" and not self.cache.shares(step)

    def release(self) -> None:
        """Ends training: nothing is kept any more."""
        for name in [*self._kept]:
            self._drop_kept(name)

    @property
    def _fresh_sent(self) -> int:
        return sum(self.cache.fresh_counts[self.rank]) if self.cache.fresh_counts else 0

    @property
    def _fresh_halo(self) -> int:
        return sum(row[self.rank] for row in self.cache.fresh_counts)

    def _travel(self, step: Step) -> Travel:
        """What is sent: of what is fixed everything, as long as it is not here."""
        if step.fixed and self.cache.keeps(step) and step.name not in self._kept:
            return "all"
        return self.cache.travel(step, refresh=self.refresh)

    def _send(self, num_packed: int, num_received: int, width: int) -> None:
        self._travelling = self.buffers.make(num_packed * width), self.buffers.make(num_received * width)

    def _arrive(self) -> int:
        packed, received = self._travelling
        self.buffers.drop(packed)
        return received

    def _keep(self, step: Step, name: str, received: int, num_kept: int, *, copies: bool) -> None:
        """Keeps what was received as it is, or a copy of the kept rows where others stand beside them."""
        if not self.cache.keeps(step):
            return
        if copies:
            self._kept[name] = self.buffers.make(num_kept * step.in_width)
        else:
            self.buffers.hold(received)
            self._kept[name] = received

    def _drop_kept(self, name: str) -> None:
        self.buffers.drop(self._kept.pop(name, None))
