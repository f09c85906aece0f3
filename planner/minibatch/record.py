"""The `MiniBatchRun` contract: stages as measured, and every epoch's plan beside what it took."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from gnnplan.planner.job import Job
from gnnplan.planner.minibatch.stages import StageTimes
from gnnplan.profiles.contract import Contract, Document

RUN_FILE = "mini_batch.json"


class MiniBatchEpoch(Contract):
    """One epoch of the first worker.

    Args:
        route: who made the batches, in a word.
        cpu_slots, gpu_slots: the plan's buffers.
        num_batches: of this worker.
        num_gpu_made: of them, made by the GPU.
        predicted_s: simulated; `gap` is how far above the bound, as a share of it.
        measured_s: until the last batch was trained, planning included.
        loss: mean over its batches.
    """

    route: Literal["resident", "CPU only", "GPU only", "collective"]
    cpu_slots: NonNegativeInt
    gpu_slots: NonNegativeInt
    num_batches: PositiveInt
    num_gpu_made: NonNegativeInt
    predicted_s: PositiveFloat
    measured_s: PositiveFloat
    gap: float
    loss: float


class MiniBatchRun(Document):
    """A whole run.

    Args:
        num_workers: that shared the batches.
        num_cpu_threads: of each worker, that made batches.
        times: of the stages, profiled before the first epoch.
        variation: of each stage, standard deviation over mean.
        cached_bytes: of the graph and the features that the device kept.
        accuracy: `train`, `val`, `test`, by neighbourhoods sampled with the same fan-outs.
    """

    KIND: ClassVar[str] = "mini_batch_run"

    job: Job
    num_workers: PositiveInt
    device: Literal["cpu", "cuda"]
    num_cpu_threads: PositiveInt
    times: StageTimes
    variation: dict[str, NonNegativeFloat]
    cached_bytes: NonNegativeInt = 0
    epochs: tuple[MiniBatchEpoch, ...] = Field(min_length=1)
    accuracy: dict[str, float]
