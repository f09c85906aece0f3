"""Full-batch training on workers that make some rows of their halos themselves, and may decide again which."""

from __future__ import annotations

import numpy as np
import torch

from planner.hybrid.staging import Staged
from planner.job import Job
from planner.joint_cache.decision import CacheDecision
from planner.plan import Plan
from planner.program import Program
from planner.shard import Shard
from runtime.full_batch import EpochRecord, FullBatchTrainer
from runtime.host_region import HostRegion
from runtime.hybrid.adjusting import Adjusting
from runtime.hybrid.in_step import InStep
from runtime.hybrid.model import HybridModel
from runtime.measured import WARM_UP_EPOCHS
from runtime.model import WorkerModel


class HybridTrainer(FullBatchTrainer):
    """A `FullBatchTrainer` over a worker's own rows and its replicas.

    Args:
        staged: what rows may be made from; it begins with the planned split.
        adjusts: whether the split changes between epochs.
        sleeps_s: as in `FullBatchTrainer`.
    """

    model: HybridModel

    def __init__(
        self,
        job: Job,
        program: Program,
        shard: Shard,
        device: torch.device,
        staged: Staged,
        *,
        adjusts: bool = False,
        sleeps_s: np.ndarray | None = None,
    ) -> None:
        self._staged, self._adjusts = staged, adjusts
        self.in_step: InStep | None = None
        self.num_epochs = job.training.epochs
        super().__init__(job, program, shard, device, sleeps_s=sleeps_s)
        del self._staged  # the model keeps it where it needs it

    @classmethod
    def of_plan(
        cls, plan: Plan, shard: Shard, staged: Staged, device: torch.device, sleeps_s: np.ndarray | None
    ) -> HybridTrainer:
        """The trainer of a plan's worker, that decides between epochs where it was planned so."""
        decided = plan.decision.dependencies
        adjusts = decided.adjust == "online"
        trainer = cls(plan.job, plan.program(), shard, device, staged, adjusts=adjusts, sleeps_s=sleeps_s)
        adjusting = Adjusting.of_plan(plan, shard.rank, trainer.model, staged)
        trainer.in_step = InStep(adjusting, decided.latency_s) if adjusting else None
        return trainer

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

    def train_epoch(self, epoch: int, *, traced: bool) -> EpochRecord:
        """As in `FullBatchTrainer`; once warm, every worker decides before the next epoch what it makes in it."""
        if self.in_step is None:
            return super().train_epoch(epoch, traced=traced)
        record = super().train_epoch(epoch, traced=True)
        if WARM_UP_EPOCHS <= epoch < self.num_epochs - 1:
            record.adjusted = self.in_step.after(record).model_dump()
        if not traced:
            record.spans = []
        return record
