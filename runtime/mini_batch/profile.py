"""Measures the stages of a mini-batch, those of each route side by side, and both routes beside one another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gnnplan.planner.minibatch.policy import Buffers
from gnnplan.planner.minibatch.stages import SideBySide, StageTimes
from gnnplan.runtime.mini_batch.executor import Epoch, Stages, coming_again, run_epoch

_WARM_UP = 2  # batches a thread: compilation, allocators, first touch of the data
_SLOTS = 2


@dataclass(frozen=True)
class StageProfile:
    """Stage times and, for each stage of a route alone, the standard deviation of its batches over their mean.

    Small variations are what makes means a good model (MorphGL, section 4.2.1).
    """

    times: StageTimes
    variation: dict[str, float]


def profile_stages(
    stages: Stages,
    num_batches: int,
    *,
    num_distinct: int,
    num_cpu_threads: int = 1,
    gpu_slots: int = _SLOTS,
    is_resident: bool = False,
    timeout_s: float = 300.0,
) -> StageProfile:
    """Runs three short epochs: every batch made by the CPU, every batch made by the GPU, and each by who is free first.

    In each its stages run beside one another, so what they take from each other (memory, PCIe, cores) is in the
    means. Batches are trained: give stages whose model may change, or undo it (`LoaderStages.undone`).

    Args:
        num_batches: of each epoch, at least two a thread, beside as many to warm up.
        num_distinct: batches there are; where these are fewer, some come again.
        gpu_slots: batches that fit on the device; no more than two are used.
        is_resident: the GPU makes batches from what lies on the device alone, so that this route is measured too.
    Raises:
        StageFailedError: as `run_epoch` does.
        UserError: there are no batches.
    """
    warm_up = _WARM_UP * num_cpu_threads
    num_batches, slots = max(num_batches, warm_up), min(_SLOTS, gpu_slots)
    again = coming_again(stages, num_distinct)
    epochs = [
        run_epoch(again, buffers, num_batches + warm_up, 0, num_cpu_threads=num_cpu_threads, timeout_s=timeout_s)
        for buffers in (Buffers(_SLOTS, slots, 0), Buffers(0, 1), Buffers(_SLOTS, slots))
    ]
    seconds = {
        "cpu_batch": _seconds(epochs[0], "cpu_batch", warm_up) / num_cpu_threads,
        "transfer": _seconds(epochs[0], "transfer", warm_up),
        "gpu_batch": _seconds(epochs[1], "gpu_batch", warm_up),
        "train": _seconds(epochs[0], "train", warm_up),
    }
    means = {stage: float(values.mean()) for stage, values in seconds.items()}
    return StageProfile(
        StageTimes(
            cpu_batching_s=means["cpu_batch"],
            gpu_batching_s=means["gpu_batch"],
            dma_s=means["transfer"],
            model_s=means["train"],
            resident_batching_s=means["gpu_batch"] if is_resident else None,
            model_alone_s=float(_seconds(epochs[1], "train", warm_up).mean()),
            together=_together(epochs[2], warm_up, num_cpu_threads),
        ),
        {stage: float(values.std() / means[stage]) for stage, values in seconds.items()},
    )


def _together(epoch: Epoch, warm_up: int, num_cpu_threads: int) -> SideBySide | None:
    """None where one of the two was so much faster that it made all."""
    stages = ("cpu_batch", "gpu_batch", "transfer", "train")
    seconds = [_seconds(epoch, stage, warm_up) for stage in stages]
    if not all(map(len, seconds)):
        return None
    cpu_batching_s, gpu_batching_s, dma_s, model_s = (float(values.mean()) for values in seconds)
    return SideBySide(
        cpu_batching_s=cpu_batching_s / num_cpu_threads, gpu_batching_s=gpu_batching_s, dma_s=dma_s, model_s=model_s
    )


def _seconds(epoch: Epoch, stage: str, warm_up: int) -> np.ndarray:
    spans = [span.end_s - span.start_s for span in epoch.spans if span.stage == stage and span.batch >= warm_up]
    return np.array(spans)
