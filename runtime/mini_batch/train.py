"""Epochs of mini-batches in a row: the plan follows the stages as they were measured last."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from planner.minibatch.dispatch import Dispatch, dispatch
from planner.minibatch.policy import Buffers
from planner.minibatch.stages import StageTimes
from runtime.mini_batch.executor import Epoch, Stages, run_epoch

_FRESH = 0.5  # weight of the last epoch's mean beside what was known before
_MOVED = 0.02  # of a stage's time: where none moves more, an epoch hardly does, and planning takes time of its own
_FIELD_OF = {"cpu_batch": "cpu_batching_s", "gpu_batch": "gpu_batching_s", "transfer": "dma_s", "train": "model_s"}


@dataclass(frozen=True)
class Trained:
    """An epoch, the plan it followed, and the stage times the next plan is made from."""

    epoch: Epoch
    plan: Dispatch
    times: StageTimes


def train(
    stages: Stages,
    times: StageTimes,
    num_batches: int,
    num_epochs: int,
    *,
    cpu_slots: int = 10,
    gpu_slots: int = 10,
    num_cpu_threads: int = 1,
    timeout_s: float = 300.0,
) -> Iterator[Trained]:
    """Plans and runs epoch after epoch; yields each when it is over.

    Rates drift: after every epoch the stages it ran are estimated anew, and where one has moved since the last
    plan the next epoch is planned from them, within its own time. A route that was not taken keeps its old estimate.

    Args:
        times: as profiled; `cpu_batching_s` with all `num_cpu_threads` at work.
        cpu_slots, gpu_slots: batches that fit, as for `dispatch`.
    Raises:
        StageFailedError: as `run_epoch` does.
    """
    slots = {"cpu_slots": cpu_slots, "gpu_slots": gpu_slots}
    plan: Dispatch | None = None
    planned_for = times
    for number in range(num_epochs):
        begun_s = time.monotonic()
        if plan is None or has_moved(planned_for, times):
            plan, planned_for = dispatch(times, num_batches, **slots, num_cpu_threads=num_cpu_threads), times
        epoch = run_epoch(
            stages,
            plan.buffers or Buffers(0, 1),
            num_batches,
            number,
            num_cpu_threads=num_cpu_threads,
            timeout_s=timeout_s,
            begun_s=begun_s,
        )
        times = updated(times, epoch, num_cpu_threads)
        yield Trained(epoch, plan, times)


def has_moved(before: StageTimes, now: StageTimes) -> bool:
    """Whether a stage takes longer or shorter than before, by so much that another plan may be better."""
    pairs = zip(*(times.model_dump(exclude_none=True).values() for times in (before, now)), strict=True)
    return any(abs(now_s - before_s) > _MOVED * before_s for before_s, now_s in pairs)


def updated(times: StageTimes, epoch: Epoch, num_cpu_threads: int) -> StageTimes:
    """Stage times half as they were known, half as the epoch has them.

    A CPU batch takes one thread its whole time, so with several a batch comes so many times as often. Where
    everything is on the device, the GPU makes its batches from there in any plan.
    """
    changed = {}
    for stage, field in _FIELD_OF.items():
        measured_s = epoch.mean_s(stage)
        if measured_s is not None:
            measured_s /= num_cpu_threads if stage == "cpu_batch" else 1
            changed[field] = (1 - _FRESH) * getattr(times, field) + _FRESH * measured_s
    if times.resident_batching_s is not None and "gpu_batching_s" in changed:
        changed["resident_batching_s"] = changed["gpu_batching_s"]
    return times.model_copy(update=changed)
