"""Bounds on an epoch of mini-batches, and the ratio that a relaxed problem starts from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gnnplan.planner.minibatch.stages import StageTimes


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


def epoch_bound(times: StageTimes, num_batches: int, num_cpu_threads: int = 1) -> EpochBound:
    """The least, over whole splits, of the busiest resource's work (MorphGL, equation 7) and what must surround it.

    Where everything fits the device, of plans too in which the GPU makes its batches from there and leaves PCIe to
    those of the CPU.

    Args:
        num_cpu_threads: that make the CPU's batches, each one in `num_cpu_threads` times `cpu_batching_s`.
    """
    num_gpu = np.arange(num_batches + 1)
    routes = [_needed_s(times, num_batches, num_gpu, num_cpu_threads)]
    if times.resident_batching_s is not None:
        resident = times.model_copy(update={"gpu_batching_s": times.resident_batching_s})
        routes.append(_needed_s(resident, num_batches, num_gpu, num_cpu_threads, over_pcie=False))
    return min((_least(needed) for needed in routes), key=lambda bound: bound.seconds)


def _least(needed: dict[str, np.ndarray]) -> EpochBound:
    """The best of the splits 0, 1, ... that resources need so many seconds for."""
    best = int(np.maximum.reduce(list(needed.values())).argmin())
    seconds, set_by = max((float(needed[resource][best]), resource) for resource in needed)
    return EpochBound(seconds, best, set_by)


def split_bounds(times: StageTimes, num_batches: int, num_gpu: np.ndarray, num_cpu_threads: int = 1) -> np.ndarray:
    """Seconds that an epoch takes at least, float64 [S], where the GPU makes `num_gpu` int64 [S] of its batches."""
    return np.maximum.reduce(list(_needed_s(times, num_batches, num_gpu, num_cpu_threads).values()))


def _needed_s(
    times: StageTimes, num_batches: int, num_gpu: np.ndarray, num_cpu_threads: int, *, over_pcie: bool = True
) -> dict[str, np.ndarray]:
    """Seconds by resource, [S] each, for splits [S].

    The CPU's threads make their batches in rounds: before a whole one nothing can be copied, nor trained without a
    batch of the GPU's, and after the last one its batches, which come together, still have to be.
    """
    num_cpu = num_batches - num_gpu
    cpu_batching_s, gpu_batching_s, dma_s, train_s = _stages_s(times, (num_cpu > 0) & (num_gpu > 0))
    round_s = num_cpu_threads * cpu_batching_s
    num_rounds = -(-num_cpu // num_cpu_threads)
    last = num_cpu - (num_rounds - 1) * num_cpu_threads  # batches that no thread can have made before the last round
    model_s = np.where(num_cpu > 0, train_s, np.minimum(times.gpu_only_model_s, train_s))
    after_s = np.maximum(last * dma_s + model_s, dma_s + last * model_s)
    first_s = np.where(num_cpu > 0, round_s, 0.0)
    batching_s = num_gpu * (gpu_batching_s if over_pcie else 0.0)
    pcie_s = np.maximum(batching_s, first_s) + num_cpu * dma_s + model_s
    arrived_s = np.where(num_cpu > 0, round_s + dma_s, 0.0)
    gpu_s = np.maximum(num_gpu * (gpu_batching_s + model_s), arrived_s) + num_cpu * model_s
    return {"CPU": np.where(num_cpu > 0, num_rounds * round_s + after_s, 0.0), "PCIe": pcie_s, "GPU": gpu_s}


def _stages_s(times: StageTimes, both_make: np.ndarray) -> tuple[np.ndarray, ...]:
    """Seconds of CPU batching, GPU batching, copy and training step, [S] each.

    A plan that leaves it open who makes what may end with one making all, at the times of both.
    """
    both = times.where_both_make
    fields = ("cpu_batching_s", "gpu_batching_s", "dma_s", "model_s")
    pairs = [(getattr(both, field), getattr(times, field)) for field in fields]
    return tuple(np.where(both_make, both_s, min(both_s, alone_s)) for both_s, alone_s in pairs)


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
