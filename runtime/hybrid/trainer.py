"""Full-batch training on workers that make some rows of their halos themselves, and may decide again which."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from gnnplan.planner.hybrid.staging import Staged
from gnnplan.planner.plan import Plan
from gnnplan.planner.shard import Shard
from gnnplan.runtime.full_batch import EpochRecord, FullBatchTrainer
from gnnplan.runtime.hybrid.adjusting import Adjusting
from gnnplan.runtime.hybrid.in_step import InStep
from gnnplan.runtime.hybrid.model import HybridModel
from gnnplan.runtime.measured import UNTIMED_EPOCHS


class HybridTrainer(FullBatchTrainer):
    """A `FullBatchTrainer` over a worker's own rows and its replicas.

    Args:
        in_step: decides between epochs what is made in the next one (None: the split stays).
    """

    def __init__(
        self, model: HybridModel, shard: Shard, in_step: InStep | None = None, *, sleeps_s: np.ndarray | None = None
    ) -> None:
        super().__init__(model, shard, sleeps_s=sleeps_s)
        self.in_step, self.num_epochs = in_step, model.job.training.epochs

    @classmethod
    def of_plan(
        cls, plan: Plan, shard: Shard, staged: Staged, device: torch.device, sleeps_s: np.ndarray | None
    ) -> HybridTrainer:
        """The trainer of a plan's worker, that decides between epochs where it was planned so."""
        model = HybridModel.of_plan(plan, shard, staged, device)
        adjusting = Adjusting.of_plan(plan, shard.rank, model, staged)
        in_step = InStep(adjusting, plan.layered.dependencies.latency_s) if adjusting else None
        return cls(model, shard, in_step, sleeps_s=sleeps_s)

    def train_epoch(self, epoch: int, *, traced: bool) -> EpochRecord:
        """As in `FullBatchTrainer`; once warm, every worker decides before the next epoch what it makes in it."""
        if self.in_step is None:
            return super().train_epoch(epoch, traced=traced)
        self.in_step.before(epoch)
        record = super().train_epoch(epoch, traced=True)
        if UNTIMED_EPOCHS <= epoch < self.num_epochs - 1:
            record.adjusted = self.in_step.after(record).model_dump()
        if not traced:
            record.spans = []
        return record

    def _told(self) -> list[Tensor]:
        return [self.in_step.told()] if self.in_step else []

    def _unflattened(self, flat: Tensor) -> Tensor:
        if self.in_step:
            self.in_step.hear(flat[self.num_parameters + 1 :])
        return super()._unflattened(flat)
