"""Training by a plan's program, in which workers go on without those that lag behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from gnnplan.planner.plan import Plan
from gnnplan.planner.program.project import Projection
from gnnplan.planner.program_shard import ProgramShard
from gnnplan.runtime.epoch_record import EpochRecord
from gnnplan.runtime.execution.peers import Workers
from gnnplan.runtime.partial.averaging import WeightMean
from gnnplan.runtime.partial.cut_off import naming_who_is_lost
from gnnplan.runtime.partial.party import Party, group_sum
from gnnplan.runtime.partial.state import PartialState
from gnnplan.runtime.program_trainer import ProgramTrainer


class PartialTrainer(ProgramTrainer):
    """A `ProgramTrainer` that goes on without workers that lag behind, as far as the plan allows.

    `train_epoch` may take part in a later step than its epoch's, where others went on: the record says in which, and
    the next epoch is the one after that. Close it at the end, after the last step or an error.

    Args:
        timeout_s: longest wait for a worker that cannot be done without.
    """

    def __init__(
        self,
        plan: Plan,
        shard: ProgramShard,
        rank: int,
        device: torch.device,
        weights: Mapping[str, Tensor],
        *,
        timeout_s: float,
        folder: Path | None = None,
    ) -> None:
        assert plan.partial is not None
        self.decision = plan.partial
        self._num_epochs, self._epoch = plan.job.training.epochs, 0
        super().__init__(plan, shard, rank, device, weights, timeout_s, folder)
        first, last = self._num_epochs - self.decision.average_epochs, self._num_epochs - 1
        self.mean = WeightMean(list(self.net.parameters()), first, last)
        self.state = PartialState(self.state, self.mean, [name for name, _ in self.net.named_parameters()])
        self.party.connect()

    def go_on_at(self, epoch: int, *, has_kept: bool, fresh_until: int = 0) -> None:
        """As of every training; workers wait for each other as in the first epochs of one, to see what is usual."""
        super().go_on_at(epoch, has_kept=has_kept, fresh_until=fresh_until)
        self.party.begin_at(epoch, self.fresh_until)

    def _peers(self, projection: Projection) -> Workers:
        self.party = Party.of(
            projection,
            self.decision,
            self.recorder,
            num_epochs=self._num_epochs,
            timeout_s=self.timeout_s,
            catch_up=self._catch_up,
        )
        return self.party.peers

    def train_epoch(self, epoch: int, *, traced: bool) -> EpochRecord:
        """One epoch, and the first step that takes this worker in."""
        late, rounds = self.party.lateness, self.party.rounds
        with naming_who_is_lost(self.party.mailbox, self.timeout_s):
            self._epoch = epoch
            late.begin(epoch)
            record = super().train_epoch(epoch, traced=traced)
            late.pace.end_epoch()
        number = rounds.number if self.decision.is_stale else epoch
        self.mean.after(number)
        oldest, num_members = max(late.oldest, number - epoch), len(rounds.group.members)
        return replace(record, epoch=number, begun=epoch, num_members=num_members, oldest=oldest)

    def _catch_up(self, number: int, total: Tensor) -> None:
        """Takes a step that the others have taken without this worker: what follows the sum, with theirs."""
        name = self.program_of(self._epoch)
        sums = group_sum(self.cycle, name)
        assert sums is not None
        self.executor.finish(name, sums.key, total.to(self.recorder.device)[None])
        self.mean.after(number)

    def close(self) -> None:
        """Ends the threads and connections."""
        self.party.close()
