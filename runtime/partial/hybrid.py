"""Partial reduce among workers that make some rows of their halos themselves, and may decide again which.

Whoever wants another split says so when it is ready for a step. After the next step of all workers, at which none has
to be waited for, they agree on rows anew, and a short warm-up measures what is usual now.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.distributed as dist

from planner.hybrid.rates import shares_s
from planner.hybrid.staging import Staged
from planner.job import Job
from planner.joint_cache.decision import CacheDecision
from planner.plan import Plan
from planner.program import Program, Step
from planner.shard import Shard
from runtime.comm import HaloExchanger
from runtime.full_batch import EpochRecord
from runtime.host_region import HostRegion
from runtime.hybrid.adjusting import Adjusting, Choice
from runtime.hybrid.model import HybridModel
from runtime.measured import WARM_UP_EPOCHS
from runtime.model import WorkerModel
from runtime.partial.exchange import PartialExchanger
from runtime.partial.mailbox import slots_of
from runtime.partial.trainer import PartialReduceTrainer


class PartialHybridTrainer(PartialReduceTrainer):
    """A `PartialReduceTrainer` over a worker's own rows and its replicas.

    Args:
        plan: with a decision of both kinds.
        staged: what rows may be made from; it begins with the planned split.
    """

    model: HybridModel

    def __init__(
        self,
        plan: Plan,
        shard: Shard,
        staged: Staged,
        device: torch.device,
        *,
        timeout_s: float,
        sleeps_s: np.ndarray | None = None,
    ) -> None:
        assert plan.decision.partial is not None
        self._staged, self._adjusts = staged, plan.decision.dependencies.adjust == "online"
        super().__init__(
            plan.job, plan.program(), shard, device, plan.decision.partial, timeout_s=timeout_s, sleeps_s=sleeps_s
        )
        del self._staged  # the model keeps it where it needs it
        self.num_epochs = plan.job.training.epochs
        self.adjusting = Adjusting.of_plan(plan, shard.rank, self.model, staged)
        self._wanted: Choice | None = None
        self._cold_until = WARM_UP_EPOCHS  # epochs before it are slower than others: the first ones, one of a new split
        self._seen: dict[tuple[str, int], int] = {}

    def _model_of(
        self,
        job: Job,
        program: Program,
        shard: Shard,
        cache: CacheDecision,
        region: HostRegion | None,
        overlap: bool,
    ) -> WorkerModel:
        return HybridModel(job, program, shard, self.recorder, self._staged, adjusts=self._adjusts)

    def _exchanger_of(self, step: Step) -> HaloExchanger:
        return self.model.level_exchanger(step)

    def _exchange_by_mailbox(self) -> None:
        # The model tells its own exchanger when an epoch begins.
        self.model.exchanger = PartialExchanger.over(self.model.whole, self.lateness)
        self.model.exchange_through(lambda plain: PartialExchanger.over(plain, self.lateness))

    def train_epoch(self, epoch: int, *, traced: bool) -> EpochRecord:
        """As in `PartialReduceTrainer`; once warm, every worker looks at its epoch and may want another split."""
        if self.adjusting is None:
            return super().train_epoch(epoch, traced=traced)
        record = super().train_epoch(epoch, traced=True)
        if epoch < self._cold_until:
            return self._without_spans(record, traced)
        choice = self.adjusting.look(record, self._exchanged)
        self._wanted = choice if record.epoch + 1 >= self.lateness.warm_until else None
        set_up_s = self._renew(self.adjusting, choice) if self.rounds.group.renews else None
        record.adjusted = self.adjusting.adjusted(choice, self.mailbox.rank, set_up_s).model_dump()
        return self._without_spans(record, traced)

    def _without_spans(self, record: EpochRecord, traced: bool) -> EpochRecord:
        if not traced:
            record.spans = []
        return record

    def _wants(self) -> bool:
        is_last = self.lateness.epoch >= self.num_epochs - 2
        return self._wanted is not None and self._wanted.is_other and not is_last

    def _renew(self, adjusting: Adjusting, choice: Choice) -> float:
        """Agrees with all others on rows, and forgets what came of the old ones; returns seconds."""
        set_up_s = adjusting.take(choice)
        slots = slots_of(self.model.program, self._exchanger_of)
        self._exchange_by_mailbox()
        self.mailbox.renew(slots)
        dist.barrier()  # nobody sends new rows before all have forgotten the old ones
        number = self.rounds.number + 1
        self.lateness.warm_up_from(number)
        self.rounds.warm_up_from(number)
        self._wanted, self._cold_until = None, number + 1
        self._seen.clear()
        return set_up_s

    def _exchanged(self, step: Step) -> tuple[np.ndarray, np.ndarray]:
        """(seconds, floats) of the rows that have come since it was last asked, from their first byte to their last.

        So neither waiting for a worker that is late nor an exchange's latency is in it.
        """
        slot = self.mailbox.index[f"{step.name}/forward"]
        counts, size = self.mailbox.slots[slot].recv_counts, self.mailbox.size
        floats, begun_s, ended_s = np.zeros(size), np.zeros(size), np.zeros(size)
        for peer, (version, begin_s, end_s) in self.mailbox.transfers(slot).items():
            if self._seen.get((step.name, peer), -1) < version:
                self._seen[step.name, peer] = version
                floats[peer], begun_s[peer], ended_s[peer] = counts[peer] * step.in_width, begin_s, end_s
        if self.adjusting is None or self.adjusting.is_few(int(floats.sum()) // step.in_width):
            return np.zeros(size), np.zeros(size)
        first_s = begun_s[floats > 0].min()
        return shares_s(np.maximum(ended_s - first_s, 0.0), floats, np.maximum(begun_s - first_s, 0.0)), floats
