"""Full-batch training by the program of a plan: every epoch plays one program of its cycle."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gnnplan.planner.forecast.sleeps import planned_sleeps_s
from gnnplan.planner.metrics import values_of
from gnnplan.planner.models.forward import MASKS, measured_metric
from gnnplan.planner.plan import Plan
from gnnplan.planner.program.cells import num_fresh
from gnnplan.planner.program.cycle import EVALUATE, Cycle
from gnnplan.planner.program.halves import half_begins
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.program.project import Projection, attach, project
from gnnplan.planner.program_shard import ProgramShard, check_shard
from gnnplan.runtime.checkpoint.state import ProgramState, State
from gnnplan.runtime.epoch_record import EpochRecord
from gnnplan.runtime.execution.executor import ProgramExecutor
from gnnplan.runtime.execution.inputs import on_device, place_of, planned_module
from gnnplan.runtime.execution.peers import Workers
from gnnplan.runtime.net import Net
from gnnplan.runtime.recorder import Recorder


class ProgramTrainer:
    """Trains one worker's part of a plan in step with the others.

    The parameters are those of the PyG model, or of the user's module, so what was trained loads there.

    Args:
        plan: with its cycle.
        shard: this worker's arrays and inputs.
        weights: that training begins with, as `first_weights` gives them; those on the device are trained where they
            lie.
        timeout_s: longest wait for another worker of the host.
        folder: where files are made for what lies on disk.
    """

    def __init__(
        self,
        plan: Plan,
        shard: ProgramShard,
        rank: int,
        device: torch.device,
        weights: Mapping[str, Tensor],
        timeout_s: float = 300.0,
        folder: Path | None = None,
    ) -> None:
        self.cycle: Cycle = plan.cycle.cycle()
        check_shard(self.cycle, shard, rank)
        self.metric = measured_metric(self.cycle)
        self.sleeps_s = planned_sleeps_s(plan, rank)
        self.net = Net(weights, self.cycle, device)
        self.recorder, self.timeout_s = Recorder(device), timeout_s
        projection = attach(project(self.cycle, rank), shard.arrays)
        self.peers = self._peers(projection)
        self.executor = ProgramExecutor(
            projection,
            {name: on_device(value, place_of(self.cycle, name, device)) for name, value in shard.inputs.items()},
            self.net.matrices,
            self.recorder,
            self.peers,
            planned_module(plan),
            folder,
        )
        self.executor.prepare(self.cycle.order)
        self.state: State = ProgramState(self.executor, self.peers.host_barrier)
        self._fresh_until, self._num_fresh = 0, num_fresh(self.cycle)

    @property
    def fresh_until(self) -> int:
        """The epochs before it send all rows, though others would not."""
        return self._fresh_until

    def go_on_at(self, epoch: int, *, has_kept: bool, fresh_until: int = 0) -> None:
        """Says which epoch comes next, where that is not the first.

        Args:
            has_kept: what is kept between epochs has been put into the state. Else it is sent again, in every epoch
                until one that sends it anyway.
            fresh_until: where it has been, and was sent again then, until which epoch.
        """
        interval = len(self.cycle.order)
        self._fresh_until = fresh_until if has_kept else -(-epoch // interval) * interval

    def _peers(self, projection: Projection) -> Workers:
        """The other workers; here they are always in step."""
        return Workers(self.recorder, self.timeout_s)

    def train_epoch(self, epoch: int, *, traced: bool) -> EpochRecord:
        """One forward, backward and optimizer step over the whole graph."""
        name = self.program_of(epoch)
        start_s = self.recorder.begin(traced)
        results = self.executor.run(name, epoch, self._sleeps(name, epoch))
        end_s = self.recorder.end()
        self.net.epochs = epoch + 1
        (loss,) = results.values()
        return EpochRecord(epoch, start_s, end_s, float(loss), self.recorder.spans, self.executor.sent_bytes)

    def scale_rate(self, factor: float) -> None:
        """From now on the learning rate is what the schedule says, times this."""
        self.executor.rate_factor = factor

    def replay(self, epoch: int, look: Callable[[Operator, list[Any]], None]) -> None:
        """Plays an epoch again without its step, as `ProgramExecutor.replay` does."""
        self.recorder.begin(False)
        self.executor.replay(self.program_of(epoch), epoch, look)
        self.recorder.end()

    def program_of(self, epoch: int) -> str:
        """The name of the program that an epoch plays."""
        is_fresh = epoch < self._fresh_until
        return self.cycle.order[epoch % (self._num_fresh if is_fresh else len(self.cycle.order))]

    def _sleeps(self, name: str, epoch: int) -> dict[str, Callable[[], None]]:
        """What the weather has this worker sleep in an epoch: half of it before each half of the program."""
        half_s = float(self.sleeps_s[epoch]) / 2
        return dict.fromkeys(half_begins(self.cycle.programs[name]), lambda: time.sleep(half_s)) if half_s else {}

    def evaluate(self) -> dict[str, float]:
        """The plan's metric over the whole graph, per mask that has rows of which it can be said."""
        self.recorder.begin(False)
        counted = self.executor.run(EVALUATE)["hits"].cpu().numpy()
        found = zip(MASKS, values_of(self.metric, counted), strict=True)
        return {name: value for name, value in found if not math.isnan(value)}

    def close(self) -> None:
        """Ends what training needed: nothing, where workers are always in step."""
