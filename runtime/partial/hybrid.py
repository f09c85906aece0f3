"""Partial reduce among workers that make some rows of their halos themselves, and may decide again which.

Whoever wants another split says so when it is ready for a step. After the next step of all workers, at which none has
to be waited for, they agree on rows anew, and all wait for all in the next epoch: of new rows there are no old ones.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import replace

import numpy as np
import torch
import torch.distributed as dist

from gnnplan.planner.hybrid.rates import shares_s
from gnnplan.planner.hybrid.staging import Staged
from gnnplan.planner.partial.decision import PartialReduceDecision
from gnnplan.planner.partial.rule import WARM_UP_EPOCHS
from gnnplan.planner.plan import Plan
from gnnplan.planner.shard import Shard
from gnnplan.planner.steps import Step
from gnnplan.runtime.full_batch import EpochRecord
from gnnplan.runtime.hybrid.adjusting import Adjusting, Choice
from gnnplan.runtime.hybrid.model import HybridModel
from gnnplan.runtime.measured import UNTIMED_EPOCHS
from gnnplan.runtime.partial.mailbox import slots_of
from gnnplan.runtime.partial.trainer import PartialReduceTrainer

_SETTLING_EPOCHS = 5  # under a split in which not all wait for all, before another one is wanted
_NUM_RECENT = 20  # epochs, the longest of which is what an epoch may take in which all wait for all


class PartialHybridTrainer(PartialReduceTrainer):
    """A `PartialReduceTrainer` over a worker's own rows and its replicas.

    Args:
        adjusting: its rates and choices (None: the split stays).
    """

    def __init__(
        self,
        model: HybridModel,
        shard: Shard,
        decision: PartialReduceDecision,
        adjusting: Adjusting | None = None,
        *,
        timeout_s: float,
        sleeps_s: np.ndarray | None = None,
    ) -> None:
        super().__init__(model, shard, decision, timeout_s=timeout_s, sleeps_s=sleeps_s)
        self.adjusting = adjusting
        self._wanted: Choice | None = None
        self._settled_from = WARM_UP_EPOCHS
        self._seen: dict[tuple[str, int], int] = {}
        self._recent_s: deque[float] = deque(maxlen=_NUM_RECENT)

    @classmethod
    def of_plan(
        cls,
        plan: Plan,
        shard: Shard,
        staged: Staged,
        device: torch.device,
        *,
        timeout_s: float,
        sleeps_s: np.ndarray | None = None,
    ) -> PartialHybridTrainer:
        """The trainer of a plan's worker; the plan has a decision of both kinds."""
        assert plan.layered.partial is not None
        model = HybridModel.of_plan(plan, shard, staged, device)
        adjusting = Adjusting.of_plan(plan, shard.rank, model, staged)
        return cls(model, shard, plan.layered.partial, adjusting, timeout_s=timeout_s, sleeps_s=sleeps_s)

    def train_epoch(self, epoch: int, *, traced: bool) -> EpochRecord:
        """As in `PartialReduceTrainer`; once warm, every worker looks at its epoch and may want another split."""
        if self.adjusting is None:
            return super().train_epoch(epoch, traced=traced)
        if epoch == 0:
            self.adjusting.begin()
        record = super().train_epoch(epoch, traced=True)
        if epoch < UNTIMED_EPOCHS:
            assert not self.rounds.group.renews, "nobody has looked at an epoch yet"
            return self._without_spans(record, traced)
        self._recent_s.append(record.end_s - record.start_s)
        choice, set_up_s = self.adjusting.look(record, self._exchanged, change_s=self._change_s()), None
        if self.rounds.group.renews:
            if self._wanted:  # what was agreed on is done, though this epoch may say otherwise
                choice = replace(self._wanted, epoch=record.epoch)
            set_up_s = self._renew(self.adjusting, choice)
        self._wanted = choice if choice.is_other and record.epoch >= self._settled_from else None
        record.adjusted = self.adjusting.adjusted(choice, self.mailbox.rank, set_up_s).model_dump()
        return self._without_spans(record, traced)

    def _without_spans(self, record: EpochRecord, traced: bool) -> EpochRecord:
        if not traced:
            record.spans = []
        return record

    def _change_s(self) -> float:
        """Seconds that the first epoch under another split may take longer than others: in it all wait for all."""
        return float(max(self._recent_s) - np.median(self._recent_s))

    def _wants(self) -> bool:
        return self._wanted is not None

    def _renew(self, adjusting: Adjusting, choice: Choice) -> float:
        """Agrees with all others on rows, and forgets what came of the old ones; returns seconds."""
        begin_s = time.monotonic()
        adjusting.take(choice)
        slots = slots_of(self.model.program, self.model.exchanger_of)
        self._exchange_by_mailbox()
        self.mailbox.renew(slots)
        longer_s = self._most_of_all(adjusting.longer_s)  # so nobody sends new rows before all have forgotten the old
        self.lateness.change_from(self.rounds.number + 1, longer_s)
        self._settled_from = self.lateness.pace.warm_until + _SETTLING_EPOCHS
        self._seen.clear()
        adjusting.set_up_s = time.monotonic() - begin_s
        return adjusting.set_up_s

    def _most_of_all(self, seconds: float) -> float:
        """The most of what all workers bring. Every worker must call it, and none goes on before all have."""
        most = torch.tensor([seconds], dtype=torch.float64, device=self.recorder.device)
        dist.all_reduce(most, op=dist.ReduceOp.MAX)
        return float(most.item())

    def _exchanged(self, step: Step) -> tuple[np.ndarray, np.ndarray]:
        """(seconds, floats) of the rows that were used for the first time, from their first byte to their last.

        So neither waiting for a worker that is late nor an exchange's latency is in it.
        """
        counts, size = self.model.exchanger_of(step).recv_counts, self.mailbox.size
        floats, begun_s, ended_s = np.zeros(size), np.zeros(size), np.zeros(size)
        for peer, arrival in self.lateness.arrivals[f"{step.name}/forward"].items():
            if self._seen.get((step.name, peer), -1) < arrival.version:
                self._seen[step.name, peer] = arrival.version
                floats[peer] = counts[peer] * step.in_width
                begun_s[peer], ended_s[peer] = arrival.begin_s, arrival.end_s
        if self.adjusting is None or self.adjusting.is_few(int(floats.sum()) // step.in_width):
            return np.zeros(size), np.zeros(size)
        first_s = begun_s[floats > 0].min()
        return shares_s(np.maximum(ended_s - first_s, 0.0), floats, np.maximum(begun_s - first_s, 0.0)), floats
