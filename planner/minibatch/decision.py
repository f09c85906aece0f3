"""What is decided of training by mini-batches: how batches are cut, and how every worker comes by its own."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import Field, NonNegativeInt, PositiveInt

from gnnplan.planner.minibatch.policy import Buffers
from gnnplan.planner.minibatch.simulate import stage_seconds
from gnnplan.planner.minibatch.stages import StageTimes
from gnnplan.profiles.contract import Contract


class WorkerBatches(Contract):
    """One worker's part of an epoch.

    Args:
        num_batches: that it trains.
        num_loaders: threads that make batches ahead of training.
        num_training_threads: of the processor, that train.
        buffers: which route takes the next batch, and how many may wait; those of a plan for one loader thread.
        times: of the stages, that it was decided by.
        spreads: of each stage, standard deviation over mean.
        is_resident: graph and features lie on the device, so it makes batches without reading host memory.
        row_bytes: of the device, for rows of the graph and the features that it keeps.
    """

    num_batches: PositiveInt
    num_loaders: PositiveInt
    num_training_threads: PositiveInt
    buffers: Buffers
    times: StageTimes
    spreads: dict[str, float] = Field(default_factory=dict)
    is_resident: bool = False
    row_bytes: NonNegativeInt = 0

    @property
    def num_in_turn(self) -> int | None:
        """Batches that the device which trains makes in its turn; None: whoever is free takes the next one."""
        if not self.buffers.cpu_slots:
            return self.num_batches
        return None if self.buffers.num_gpu_batches is None else min(self.buffers.num_gpu_batches, self.num_batches)

    @property
    def seconds(self) -> dict[str, float]:
        """Of a batch in every stage, as the policy calls them; a loader thread's own."""
        return stage_seconds(self.times, self.buffers, self.num_batches, self.num_loaders)


class MiniBatchDecision(Contract):
    """How a job's mini-batches are made and trained.

    Args:
        fan_outs: neighbours drawn a hop.
        batch_size: training vertices a batch.
        workers: of every worker its part.
        device_kind: of the workers.
        num_features: of a vertex.
        batch_nodes, batch_edges: of the largest batch that was measured.
        held_bytes: of every worker, before the first batch.
        step_bytes: of every worker, that a training step makes and drops.
    """

    fan_outs: tuple[int, ...] = (10,)
    batch_size: PositiveInt = 1
    workers: tuple[WorkerBatches, ...] = ()
    device_kind: str = "cpu"
    num_features: PositiveInt = 1
    batch_nodes: PositiveInt = 1
    batch_edges: NonNegativeInt = 0
    held_bytes: tuple[NonNegativeInt, ...] = ()
    step_bytes: tuple[NonNegativeInt, ...] = ()


def batches_among(decisions: Iterable[Contract]) -> MiniBatchDecision | None:
    """The decision on mini-batches among those of a plan (None: it trains the whole graph at once)."""
    return next((each for each in decisions if isinstance(each, MiniBatchDecision)), None)
