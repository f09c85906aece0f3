"""The `MeasuredBatches` contract: the stages of a job's mini-batches, as the workers of a cluster ran them."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt

from gnnplan.planner.minibatch.stages import StageTimes
from gnnplan.planner.plan import GraphFacts
from gnnplan.profiles.contract import Contract, Document

MEASURED_BATCHES_FILE = "stages.json"


class ThreadSplit(Contract):
    """A worker's threads shared out, and what the stages take then.

    Args:
        num_loaders: threads that make batches ahead of training.
        num_training_threads: of the processor, that train.
        variation: of each stage, standard deviation over mean.
    """

    num_loaders: PositiveInt
    num_training_threads: PositiveInt
    times: StageTimes
    variation: dict[str, NonNegativeFloat]


class MeasuredWorker(Contract):
    """What one worker found.

    Args:
        num_batches: of an epoch, that it trains.
        splits: that were tried.
        gpu_slots: batches that may wait on its device.
        is_resident: graph and features lie on the device.
        row_bytes: that its device may keep of them, beside batches.
        held_bytes: before the first batch; of a device's own memory, else of the process.
        loading_bytes: at most until then.
        step_bytes: that a training step makes and drops, at most.
        memory_bytes: that it may use.
        num_threads: that it has.
        num_beside: workers of its host.
    """

    num_batches: PositiveInt
    splits: tuple[ThreadSplit, ...] = Field(min_length=1)
    gpu_slots: PositiveInt
    is_resident: bool = False
    row_bytes: NonNegativeInt = 0
    held_bytes: NonNegativeInt
    loading_bytes: NonNegativeInt
    step_bytes: NonNegativeInt
    memory_bytes: PositiveInt
    num_threads: PositiveInt
    num_beside: PositiveInt = 1


class MeasuredBatches(Document):
    """All workers' stages.

    Args:
        device_name: of the first worker.
        batch_nodes, batch_edges: of the largest batch of its.
    """

    KIND: ClassVar[str] = "measured_batches"

    graph: GraphFacts
    device_kind: Literal["cpu", "cuda"]
    device_name: str
    batch_nodes: PositiveInt
    batch_edges: NonNegativeInt
    workers: tuple[MeasuredWorker, ...] = Field(min_length=1)
