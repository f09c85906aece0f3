"""Training by a plan's program, in which workers go on without those that lag behind."""

from __future__ import annotations

import itertools
from dataclasses import replace

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import _get_default_store

from gnnplan.planner.plan import Plan
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.program.project import Projection
from gnnplan.planner.program_shard import ProgramShard
from gnnplan.runtime.execution.peers import Workers
from gnnplan.runtime.full_batch import EpochRecord
from gnnplan.runtime.partial.averaging import WeightMean
from gnnplan.runtime.partial.cut_off import naming_who_is_cut_off
from gnnplan.runtime.partial.gradients import GroupGradient
from gnnplan.runtime.partial.group_steps import GroupSteps
from gnnplan.runtime.partial.lateness import Lateness
from gnnplan.runtime.partial.mailbox import Mailbox
from gnnplan.runtime.partial.mesh import Mesh, connect_all
from gnnplan.runtime.partial.peers import PartialWorkers, slots_of
from gnnplan.runtime.partial.rounds import Rounds
from gnnplan.runtime.program_trainer import ProgramTrainer

_runs = itertools.count()  # workers make their trainers in the same order, so they agree on a run's number


class PartialTrainer(ProgramTrainer):
    """A `ProgramTrainer` that goes on without workers that lag behind, as far as the plan allows.

    `train_epoch` may take part in a later step than its epoch's, where others went on: the record says in which, and
    the next epoch is the one after that. Close it at the end, after the last step or an error.

    Args:
        timeout_s: longest wait for a worker that cannot be done without.
    """

    def __init__(self, plan: Plan, shard: ProgramShard, rank: int, device: torch.device, *, timeout_s: float) -> None:
        assert plan.partial is not None
        self.decision, self.timeout_s, self._rank = plan.partial, timeout_s, rank
        self._num_epochs, self._epoch = plan.job.training.epochs, 0
        super().__init__(plan, shard, rank, device)
        first, last = self._num_epochs - self.decision.average_epochs, self._num_epochs - 1
        self.mean = WeightMean(list(self.net.parameters()), first, last)
        self.mesh = Mesh(connect_all(timeout_s), self.mailbox)
        self.mailbox.open(self.mesh)

    def _peers(self, projection: Projection) -> Workers:
        size, is_pinned = projection.num_workers, self.recorder.device.type == "cuda"
        self.mailbox = Mailbox(self._rank, size, slots_of(projection), is_pinned=is_pinned)
        self.lateness = Lateness.of(self.mailbox, self.decision, self._num_epochs, self.timeout_s)
        store = dist.PrefixStore(f"partial_reduce/{next(_runs)}", _get_default_store())
        self.rounds = Rounds(self.mailbox, self.decision, store, self._num_epochs, self.timeout_s)
        self.steps = self._steps()
        return PartialWorkers(self.recorder, self.lateness, self.steps.join)

    def _steps(self) -> GroupSteps:
        sums = self.group_sum(0)
        sizes, layers = (sums.attributes[name] if sums else () for name in ("sizes", "layers"))
        gradient = GroupGradient(self.decision, sizes, layers)
        return GroupSteps(self.lateness, self.rounds, gradient, self.timeout_s, self._catch_up)

    def group_sum(self, epoch: int) -> Operator | None:
        """The operator of an epoch that adds gradients up over some of the workers (None: over all of them)."""
        program = self.cycle.programs[self.program_of(epoch)]
        return next((op for op in program if op.attributes.get("group")), None)

    def train_epoch(self, epoch: int, *, traced: bool) -> EpochRecord:
        """One epoch, and the first step that takes this worker in."""
        with naming_who_is_cut_off(self.mailbox, self.timeout_s):
            self._epoch = epoch
            self.lateness.begin(epoch)
            record = super().train_epoch(epoch, traced=traced)
            self.lateness.pace.end_epoch()
        number = self.rounds.number if self.decision.is_stale else epoch
        self.mean.after(number)
        oldest = max(self.lateness.oldest, number - epoch)
        num_members = len(self.rounds.group.members)
        return replace(record, epoch=number, begun=epoch, num_members=num_members, oldest=oldest)

    def _catch_up(self, number: int, total: Tensor) -> None:
        """Takes a step that the others have taken without this worker: what follows the sum, with theirs."""
        sums = self.group_sum(self._epoch)
        assert sums is not None
        self.executor.finish(self.program_of(self._epoch), sums.key, total.to(self.recorder.device)[None])
        self.mean.after(number)

    def close(self) -> None:
        """Ends the threads and connections."""
        self.mesh.close(min(self.timeout_s, 10.0))
