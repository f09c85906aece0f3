"""Epochs of mini-batches in a row: the plan follows the stages as they were measured last."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gnnplan.planner.minibatch.dispatch import Dispatch, dispatch
from gnnplan.planner.minibatch.policy import Buffers
from gnnplan.planner.minibatch.stages import SideBySide, StageTimes
from gnnplan.runtime.mini_batch.executor import Epoch, Stages, run_epoch

_FRESH = 0.5  # weight of the last epoch's mean beside what was known before
_MOVED = 0.02  # of a stage's time: where none moves more, an epoch hardly does, and planning takes time of its own
_AT_WORK = 0.8  # of the threads, on average: no batch has all beside it from its begin to its end
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
    pairs = zip(*(_all_s(times) for times in (before, now)), strict=True)
    return any(abs(now_s - before_s) > _MOVED * before_s for before_s, now_s in pairs)


def _all_s(times: StageTimes) -> list[float]:
    known = times.model_dump(exclude_none=True)
    together = known.pop("together", {})
    return [*known.values(), *together.values()]


def updated(times: StageTimes, epoch: Epoch, num_cpu_threads: int) -> StageTimes:
    """Stage times half as they were known, half as the epoch has them.

    A CPU batch takes one thread its whole time, so with several a batch comes so many times as often; where few worked,
    the estimate never falls. Steps of an epoch without CPU batches are those of such epochs, and where both make
    batches, all stages are. Where everything is on the device, the GPU makes its batches from there in any plan.
    """
    if times.together is not None and None not in (epoch.mean_s("cpu_batch"), epoch.mean_s("gpu_batch")):
        now = updated(times.where_both_make, epoch, num_cpu_threads)
        together = {name: getattr(now, name) for name in SideBySide.model_fields}
        return times.model_copy(update={"together": SideBySide(**together)})
    fields = dict(_FIELD_OF)
    if times.model_alone_s is not None and epoch.mean_s("cpu_batch") is None:
        fields["train"] = "model_alone_s"
    changed = {}
    for stage, field in fields.items():
        measured_s = epoch.mean_s(stage)
        if stage == "cpu_batch":
            measured_s = _cpu_batching_s(epoch, num_cpu_threads, times.cpu_batching_s)
        if measured_s is not None:
            changed[field] = (1 - _FRESH) * getattr(times, field) + _FRESH * measured_s
    if times.resident_batching_s is not None and "gpu_batching_s" in changed:
        changed["resident_batching_s"] = changed["gpu_batching_s"]
    return times.model_copy(update=changed)


def _cpu_batching_s(epoch: Epoch, num_cpu_threads: int, known_s: float) -> float | None:
    """Seconds from one CPU batch to the next with all threads at work; None where the epoch does not tell.

    Batches count beside which most threads made others: fewer of them have the memory to themselves, and are faster
    than all would be. Where these few are slower than all were known to be, that counts too.
    """
    spans = np.array([(span.start_s, span.end_s) for span in epoch.spans if span.stage == "cpu_batch"]).reshape(-1, 2)
    starts_s, ends_s = np.sort(spans, axis=0).T
    lengths_s = spans[:, 1] - spans[:, 0]

    def thread_seconds(at_s: np.ndarray) -> np.ndarray:
        """That the threads had worked in all at these moments."""
        return _seconds_since(starts_s, at_s) - _seconds_since(ends_s, at_s)

    together = thread_seconds(spans[:, 1]) - thread_seconds(spans[:, 0])  # a batch's own seconds among them
    counted = lengths_s[together >= _AT_WORK * num_cpu_threads * lengths_s]
    if len(counted):
        return float(counted.mean()) / num_cpu_threads
    least_s = float(lengths_s.mean()) / num_cpu_threads if len(lengths_s) else 0.0
    return least_s if least_s > known_s else None


def _seconds_since(events_s: np.ndarray, at_s: np.ndarray) -> np.ndarray:
    """Of each moment [M], the sum of the seconds since every one of ascending events [E] that lies before it."""
    num_before = np.searchsorted(events_s, at_s)
    return num_before * at_s - np.concatenate([[0.0], np.cumsum(events_s)])[num_before]
