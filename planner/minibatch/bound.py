"""Bounds on an epoch of mini-batches, and the ratio that a relaxed problem starts from."""

from __future__ import annotations

from dataclasses import dataclass

from planner.minibatch.stages import StageTimes


@dataclass(frozen=True)
class EpochBound:
    """No split of `num_batches` between CPU and GPU trains an epoch sooner than `seconds`.

    Args:
        num_gpu_batches: the split that the bound is reached at, were stages divisible.
        set_by: what is busy all the time there: `CPU`, `PCIe` or `GPU`.
    """

    seconds: float
    num_gpu_batches: int
    set_by: str


def epoch_bound(times: StageTimes, num_batches: int) -> EpochBound:
    """The least, over whole splits, of the busiest resource's work (MorphGL, equation 7) and what must surround it.

    Before the GPU's work lies the first CPU batch where the GPU makes none; after the CPU's and PCIe's
    lies what the last batch still has to go through.
    """
    return min((_bound_of(times, num_batches, k) for k in range(num_batches + 1)), key=lambda bound: bound.seconds)


def _bound_of(times: StageTimes, num_batches: int, num_gpu: int) -> EpochBound:
    num_cpu = num_batches - num_gpu
    gpu_s = num_batches * times.model_s + num_gpu * times.gpu_batching_s
    pcie_s = num_gpu * times.gpu_batching_s + num_cpu * times.dma_s + times.model_s
    cpu_s = num_cpu * times.cpu_batching_s + times.dma_s + times.model_s if num_cpu else 0.0
    if not num_gpu:
        gpu_s += times.cpu_batching_s + times.dma_s
        pcie_s += times.cpu_batching_s
    seconds, set_by = max((cpu_s, "CPU"), (pcie_s, "PCIe"), (gpu_s, "GPU"))
    return EpochBound(seconds, num_gpu, set_by)


def relaxed_epoch_s(times: StageTimes, ratio: float, num_batches: int) -> float:
    """C'(x), seconds of an epoch in which the GPU makes `ratio` batches for each of the CPU's.

    MorphGL's equation 6 as its figure 6b means it (the printed one multiplies a time by a time):
    n / (1 + x) (x T_gb + max{T_dma, (1 + x) T_model, T_cb - x T_gb}): while the GPU batches, the CPU
    does too; then DMA, training and the rest of the CPU's batching overlap.
    """
    batching_s = ratio * times.gpu_batching_s
    rest_s = max(times.dma_s, (1 + ratio) * times.model_s, times.cpu_batching_s - batching_s)
    return num_batches / (1 + ratio) * (batching_s + rest_s)


def relaxed_ratio(times: StageTimes) -> float:
    """The x >= 0 that minimises `relaxed_epoch_s`; infinite where the GPU had better make all.

    Between the points where two of the three overlapping terms are equal, C' is a ratio of linear
    functions, hence monotone: one of these points, 0 or infinity is best.
    """
    t = times
    crossings = (
        t.dma_s / t.model_s - 1,
        (t.cpu_batching_s - t.dma_s) / t.gpu_batching_s,
        (t.cpu_batching_s - t.model_s) / (t.gpu_batching_s + t.model_s),
    )
    best = min((0.0, *(x for x in crossings if x > 0)), key=lambda x: relaxed_epoch_s(t, x, 1))
    all_on_gpu_s = t.gpu_batching_s + t.model_s
    return best if relaxed_epoch_s(t, best, 1) <= all_on_gpu_s else float("inf")
