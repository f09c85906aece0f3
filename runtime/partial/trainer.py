"""Full-batch training under partial reduce: old halo rows where new ones are late, steps without who lags behind."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import _get_default_store

from gnnplan.planner.partial.decision import PartialReduceDecision
from gnnplan.planner.shard import Shard
from gnnplan.planner.steps import Program
from gnnplan.runtime.full_batch import EpochRecord, FullBatchTrainer
from gnnplan.runtime.model import WorkerModel
from gnnplan.runtime.partial.averaging import WeightMean
from gnnplan.runtime.partial.cut_off import naming_who_is_cut_off
from gnnplan.runtime.partial.exchange import PartialExchanger
from gnnplan.runtime.partial.gradients import GroupGradient
from gnnplan.runtime.partial.group_steps import GroupSteps
from gnnplan.runtime.partial.lateness import Lateness
from gnnplan.runtime.partial.mailbox import Mailbox, slots_of
from gnnplan.runtime.partial.mesh import Mesh, connect_all
from gnnplan.runtime.partial.rounds import Rounds

_runs = itertools.count()  # workers make their trainers in the same order, so they agree on a run's number


class PartialReduceTrainer(FullBatchTrainer):
    """A `FullBatchTrainer` that goes on without workers that lag behind, as far as the decision allows.

    `train_epoch` may take part in a later step than its epoch's, where others went on: the record says in which, and
    the next epoch is the one after that. Close it at the end, after the last step or an error.

    Args:
        decision: what was planned.
        timeout_s: longest wait for a worker that cannot be done without.
    """

    def __init__(
        self,
        model: WorkerModel,
        shard: Shard,
        decision: PartialReduceDecision,
        *,
        timeout_s: float,
        sleeps_s: np.ndarray | None = None,
    ) -> None:
        super().__init__(model, shard, sleeps_s=sleeps_s)
        self.decision, self.timeout_s = decision, timeout_s
        layers = _layers_of(model.program, [name for name, _ in model.net.named_parameters()])
        sizes = [parameter.numel() for parameter in self.parameters]
        self.gradient = GroupGradient(decision, [*sizes, 1], [*layers, model.job.model.num_layers - 1])
        slots = slots_of(model.program, model.exchanger_of)
        is_pinned = self.recorder.device.type == "cuda"
        self.mailbox = Mailbox(shard.rank, shard.num_workers, slots, is_pinned=is_pinned)
        self.lateness = Lateness.of(self.mailbox, decision, model.job.training.epochs, timeout_s)
        self._exchange_by_mailbox()
        store = dist.PrefixStore(f"partial_reduce/{next(_runs)}", _get_default_store())
        self.rounds = Rounds(self.mailbox, decision, store, model.job.training.epochs, timeout_s)
        self.steps = GroupSteps(self.lateness, self.rounds, self.gradient, timeout_s, self._catch_up)
        num_epochs = model.job.training.epochs
        self.mean = WeightMean(self.parameters, num_epochs - decision.average_epochs, num_epochs - 1)
        self.mesh = Mesh(connect_all(timeout_s), self.mailbox)
        self.mailbox.open(self.mesh)

    def _exchange_by_mailbox(self) -> None:
        """Has the model exchange its rows over the mailbox."""
        self.model.exchange_through(lambda plain: PartialExchanger.over(plain, self.lateness))

    def train_epoch(self, epoch: int, *, traced: bool) -> EpochRecord:
        """One forward and backward pass, and the first step that takes this worker in."""
        with naming_who_is_cut_off(self.mailbox, self.timeout_s):
            return self._train_epoch(epoch, traced=traced)

    def _train_epoch(self, epoch: int, *, traced: bool) -> EpochRecord:
        self.lateness.begin(epoch)
        record = super().train_epoch(epoch, traced=traced)
        self.lateness.pace.end_epoch()
        number = self.rounds.number if self.decision.is_stale else epoch
        self.mean.after(number)
        oldest = max(self.lateness.oldest, number - epoch)
        num_members = len(self.rounds.group.members)
        return replace(record, epoch=number, begun=epoch, num_members=num_members, oldest=oldest)

    def close(self) -> None:
        """Ends the threads and connections."""
        self.mesh.close(min(self.timeout_s, 10.0))

    def _reduce(self, loss: Tensor) -> Tensor:
        if not self.decision.is_stale:
            return super()._reduce(loss)
        with self.recorder.span("reduce/flatten"):
            flat = self._flattened(loss)
        with self.recorder.span("reduce", "communicate"):
            total = self.steps.join(flat.cpu(), wants=self._wants())
        with self.recorder.span("reduce/unflatten"):
            # As views of the total, which may still be sent, and may stand in for absent ones: nothing writes to them.
            return self._unflattened(total.to(loss.device))

    def _wants(self) -> bool:
        """Whether this worker would exchange other rows; where the split is fixed it never would."""
        return False

    def _catch_up(self, number: int, total: Tensor) -> None:
        """Takes a step that the others have taken without this worker."""
        self._unflattened(total.to(self.recorder.device))
        self.optimizer.step()
        self.mean.after(number)


def _layers_of(program: Program, names: list[str]) -> list[int]:
    """The layer of every parameter."""
    layer_of = {key: step.layer for step in program.steps for key in (*step.weights, step.bias) if key}
    return [layer_of[name] for name in names]
