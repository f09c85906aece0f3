"""Measures the stages of a mini-batch, those of each route side by side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.minibatch.policy import Buffers
from planner.minibatch.stages import StageTimes
from runtime.mini_batch.executor import Epoch, Stages, coming_again, run_epoch

_WARM_UP = 2  # batches a thread: compilation, allocators, first touch of the data
_SLOTS = 2


@dataclass(frozen=True)
class StageProfile:
    """Stage times and, for each stage, the standard deviation of its batches over their mean.

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
    """Runs two short epochs, one with every batch made by the CPU, one with every batch made by the GPU.

    In each the stages of its route run beside one another, so what these take from each other is in the
    means; what those of one route take from the other's is not. A training step is measured in both. Batches are
    trained: give stages whose model may change, or undo it (`LoaderStages.undone`).

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
    num_batches = max(num_batches, warm_up)
    again = coming_again(stages, num_distinct)
    epochs = [
        run_epoch(again, buffers, num_batches + warm_up, 0, num_cpu_threads=num_cpu_threads, timeout_s=timeout_s)
        for buffers in (Buffers(_SLOTS, min(_SLOTS, gpu_slots), 0), Buffers(0, 1))
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
        ),
        {stage: float(values.std() / means[stage]) for stage, values in seconds.items()},
    )


def _seconds(epoch: Epoch, stage: str, warm_up: int) -> np.ndarray:
    spans = [span.end_s - span.start_s for span in epoch.spans if span.stage == stage and span.batch >= warm_up]
    return np.array(spans)
