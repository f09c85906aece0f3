"""Measures the stages of a job's mini-batches, for every way to share out a worker's threads that is worth trying."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from gnnplan.planner.job import Job
from gnnplan.planner.measured_batches import MEASURED_BATCHES_FILE, MeasuredBatches, MeasuredWorker, ThreadSplit
from gnnplan.planner.minibatch.room import MAX_SLOTS
from gnnplan.profiles.launch import emit
from gnnplan.profiles.memory import worker_memory_bytes
from gnnplan.profiles.profiler import device_name
from gnnplan.profiles.roll_call import naming_lost_workers
from gnnplan.profiles.torchrun import local_device, process_group
from gnnplan.runtime.gather import gather
from gnnplan.runtime.mini_batch.batch_worker import BatchWorker, num_threads
from gnnplan.runtime.mini_batch.device_memory import CudaMemory, Filled, fill_device
from gnnplan.runtime.mini_batch.distributed import emptying_frames
from gnnplan.runtime.mini_batch.profile import profile_stages
from gnnplan.runtime.over_workers import least
from gnnplan.runtime.peak import held_memory_bytes, peak_memory_bytes

_PROFILED_BATCHES = 12
_ROUNDS = 2  # in which splits are measured in turns: what disturbs the machine is not put down to one of them
_CPU_SLOTS = 2  # more batches than these need memory that is new each time, and nothing is gained
_Split = tuple[int, int]


def measure_worker(job_path: Path, folder: Path, *, timeout_s: float) -> None:
    """Measures this process's stages; torchrun's environment says which it is. Rank 0 writes `folder/stages.json`."""
    job, device = Job.load(job_path), local_device()
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    with process_group(device, timeout_s), emptying_frames(), naming_lost_workers():
        # All workers make as many steps, for each of these ends with a sum over them.
        splits = thread_splits(least(num_threads()), on_cuda=device.type == "cuda")
        most_loaders = max(num_loaders for num_loaders, _ in splits)
        worker = BatchWorker(job, device, rank, size, timeout_s, most_loaders, most_loaders + 2 * MAX_SLOTS)
        loading_bytes = peak_memory_bytes(device)
        found = _measured(worker, splits, loading_bytes)
        gathered = gather(found.model_dump(mode="json"))
        if gathered is not None:
            _document(worker, gathered).save(folder / MEASURED_BATCHES_FILE)


def thread_splits(num_threads: int, *, on_cuda: bool) -> list[_Split]:
    """(loader threads, training threads) worth trying.

    A GPU trains with one thread of the processor. On a CPU loaders and training use the same cores: all of these may
    train while one or more threads load, or each side has its half.
    """
    if on_cuda:
        return [(max(1, num_threads - 1), 1)]
    half = max(1, num_threads // 2)
    return list(dict.fromkeys([(half, num_threads), (num_threads, num_threads), (1, num_threads), (half, half)]))


def _measured(worker: BatchWorker, splits: list[_Split], loading_bytes: int) -> MeasuredWorker:
    device, job = worker.device, worker.job
    filled = Filled(_CPU_SLOTS)
    if device.type == "cuda":
        assert job.mini_batch is not None
        filled = fill_device(worker.stages, CudaMemory(device), limit_bytes=job.mini_batch.device_bytes)
    held_bytes = held_memory_bytes(device)
    measured = _of_splits(worker, splits, filled)
    step_bytes = filled.step_bytes or max(0, peak_memory_bytes(device) - max(held_bytes, loading_bytes))
    return MeasuredWorker(
        num_batches=worker.num_batches,
        splits=measured,
        gpu_slots=filled.num_slots,
        is_resident=worker.stages.is_resident,
        row_bytes=filled.row_bytes,
        held_bytes=held_bytes,
        loading_bytes=loading_bytes,
        step_bytes=step_bytes,
        memory_bytes=worker_memory_bytes(device, int(os.environ.get("LOCAL_WORLD_SIZE", "1"))),
        num_threads=num_threads(),
        num_beside=int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
    )


def _of_splits(worker: BatchWorker, splits: list[_Split], filled: Filled) -> tuple[ThreadSplit, ...]:
    """Of every split the round that was disturbed less. One alone is compared with none, so it has one round."""
    in_turns = splits * (_ROUNDS if len(splits) > 1 else 1)
    found: dict[_Split, ThreadSplit] = {}
    for number, split in enumerate(in_turns):
        now = _of_split(worker, split, filled)
        found[split] = min(found.get(split, now), now, key=_of_a_batch_s)
        if worker.rank == 0:
            emit({"event": "point", "done": number + 1, "of": len(in_turns)})
    return tuple(found.values())


def _of_a_batch_s(measured: ThreadSplit) -> float:
    times = measured.times
    return times.cpu_batching_s + times.gpu_batching_s + times.dma_s + times.model_s


def _of_split(worker: BatchWorker, split: _Split, filled: Filled) -> ThreadSplit:
    num_loaders, num_training_threads = split
    torch.set_num_threads(num_training_threads)
    with worker.stages.undone():
        profile = profile_stages(
            worker.stages,
            _PROFILED_BATCHES,
            num_distinct=len(worker.loader),
            num_cpu_threads=num_loaders,
            gpu_slots=filled.num_slots,
            is_resident=worker.stages.is_resident,
            timeout_s=worker.stage_timeout_s,
        )
    return ThreadSplit(
        num_loaders=num_loaders,
        num_training_threads=num_training_threads,
        times=profile.times,
        variation=profile.variation,
    )


def _document(worker: BatchWorker, gathered: list[dict]) -> MeasuredBatches:
    batches = [worker.loader.batch(0, index) for index in range(min(3, len(worker.loader)))]
    return MeasuredBatches(
        graph=worker.graph.facts,
        device_kind="cuda" if worker.device.type == "cuda" else "cpu",
        device_name=device_name(worker.device),
        batch_nodes=max(batch.num_nodes for batch in batches),
        batch_edges=max(batch.num_edges for batch in batches),
        workers=tuple(MeasuredWorker.model_validate(each) for each in gathered),
    )
