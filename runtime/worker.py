"""One worker process: loads its shard, trains, measures, and hands its figures to rank 0."""

from __future__ import annotations

import json
import os
import resource
import time
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

from planner.hybrid.levels import levels_of
from planner.hybrid.staging import Staged
from planner.joint_cache.decision import CacheDecision
from planner.plan import Plan
from planner.shard import Shard
from planner.trace import Adjusted, Span, Trace
from profiles.contract import replacing
from profiles.kernels import pool
from profiles.kernels.heap import return_freed_memory
from profiles.launch import emit
from runtime.full_batch import EpochRecord, FullBatchTrainer
from runtime.hybrid.adjusting import Adjusting
from runtime.hybrid.model import HybridModel

MAX_TRACED_EPOCHS = 10
_WARM_UP_EPOCHS = 2
_SAY_EVERY_S = 0.25


def run_worker(plan_path: Path, folder: Path, *, timeout_s: float) -> None:
    """Trains this process's share of a plan; torchrun's environment says which.

    Reads `folder/shards/worker_{rank}.npz`; rank 0 writes `folder/measured.json` and `folder/model.pt`.
    """
    plan = Plan.load(plan_path)
    rank, device = int(os.environ["RANK"]), _pick_device(plan)
    backend = "nccl" if device.type == "cuda" else "gloo"
    if plan.num_workers > 1:
        dist.init_process_group(backend, timeout=timedelta(seconds=timeout_s))
    try:
        _train(plan, folder, rank, device)
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def _pick_device(plan: Plan) -> torch.device:
    place = plan.placement.workers[int(os.environ["RANK"])]
    profile = plan.placement.profiles[place.profile]
    local_rank = int(os.environ["LOCAL_RANK"])
    if profile.device_kind == "cuda" and torch.cuda.is_available():
        device = torch.device("cuda", local_rank % torch.cuda.device_count())
        torch.cuda.set_device(device)
        return device
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    return torch.device("cpu")


def _train(plan: Plan, folder: Path, rank: int, device: torch.device) -> None:
    setup_start_s = time.monotonic()
    shard = Shard.load(folder / "shards" / f"worker_{rank}.npz")
    trainer, adjusting = _set_up(plan, shard, folder, rank, device)
    del shard
    pool.release()
    return_freed_memory()
    epochs = plan.job.training.epochs
    traced = set(traced_epochs(epochs, plan.decision.cache.refresh_interval))
    if plan.num_workers > 1:
        dist.barrier()
    setup_s = time.monotonic() - setup_start_s
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    records: list[EpochRecord] = []
    adjusted: list[Adjusted] = []
    said_s = 0.0
    for epoch in range(epochs):
        records.append(trainer.train_epoch(epoch, traced=adjusting is not None or epoch in traced))
        if adjusting and epoch < epochs - 1:
            adjusted.append(adjusting.after(records[-1]))
        if epoch not in traced:
            records[-1].spans = []
        # Each word costs the listener CPU time, which on a small machine is the workers' own.
        if rank == 0 and (records[-1].end_s - said_s > _SAY_EVERY_S or epoch == epochs - 1):
            said_s = records[-1].end_s
            emit({"event": "epoch", "epoch": epoch, "epochs": epochs, "loss": records[-1].loss})
    peak_bytes = peak_memory_bytes(device)
    accuracy = trainer.evaluate()
    gathered = _gather(
        {
            "records": [asdict(r) for r in records],
            "adjusted": [each.model_dump() for each in adjusted],
            "peak_bytes": peak_bytes,
            "setup_s": setup_s,
        }
    )
    if rank == 0:
        assert gathered is not None
        _measured_trace(plan, gathered, accuracy).save(folder / "measured.json")
        with replacing(folder / "model.pt") as temporary:
            torch.save(trainer.model.net.cpu().state_dict(), temporary)


def _set_up(
    plan: Plan, shard: Shard, folder: Path, rank: int, device: torch.device
) -> tuple[FullBatchTrainer, Adjusting | None]:
    """The trainer, and where dependencies are decided online what decides between epochs."""
    program, decided = plan.program(), plan.decision.dependencies
    if not decided.replicates:
        return FullBatchTrainer(plan.job, program, shard, device, plan.decision.cache), None
    staged, adjusts = Staged.load(folder / "shards" / f"staged_{rank}.npz"), decided.adjust == "online"
    trainer = FullBatchTrainer(plan.job, program, shard, device, staged=staged, adjusts=adjusts)
    if not adjusts:
        return trainer, None
    assert isinstance(trainer.model, HybridModel)
    levels = levels_of(plan.job.model, plan.decision.layers, plan.graph.num_features, plan.graph.num_classes)
    return trainer, Adjusting(trainer.model, staged, levels, decided.workers[rank].rates, decided.latency_s)


def traced_epochs(epochs: int, refresh_interval: int = 1) -> list[int]:
    """Up to `MAX_TRACED_EPOCHS` epochs, evenly spread after the warm-up.

    With a refresh interval also the one that begins each one's interval and the one after, for both kinds.
    """
    first = min(_WARM_UP_EPOCHS, epochs - 1)
    count = min(MAX_TRACED_EPOCHS, epochs - first)
    spread = {int(e) for e in np.linspace(first, epochs - 1, count)}
    if refresh_interval > 1:
        begins = {e - e % refresh_interval for e in spread}
        spread |= {e for begin in begins for e in (begin, begin + 1) if first <= e < epochs}
    return sorted(spread)


def peak_memory_bytes(device: torch.device) -> int:
    """Peak bytes so far: CUDA's own counter, or this process's resident high-water mark."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _gather(value: dict) -> list[dict] | None:
    """Every worker's dict at rank 0, as JSON bytes: nothing is unpickled."""
    if not dist.is_initialized():
        return [value]
    rank, size = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda") if dist.get_backend() == "nccl" else torch.device("cpu")
    data = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8).to(device)
    lengths = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(size)]
    dist.all_gather(lengths, torch.tensor([len(data)], device=device))
    width = int(max(lengths))
    padded = torch.zeros(width, dtype=torch.uint8, device=device)
    padded[: len(data)] = data
    rows = [torch.zeros_like(padded) for _ in range(size)]
    dist.all_gather(rows, padded)
    if rank != 0:
        return None
    return [json.loads(bytes(row[: int(n)].cpu().numpy())) for row, n in zip(rows, lengths)]


def _sent_bytes(by_worker: list[list[EpochRecord]], cache: CacheDecision, *, refresh: bool) -> tuple[int, ...]:
    """What each worker sent in the last epoch of a kind; empty where there was none."""
    epochs = [record.epoch for record in by_worker[0] if cache.refreshes(record.epoch) == refresh]
    return tuple(records[epochs[-1]].sent_bytes for records in by_worker) if epochs else ()


def _measured_trace(plan: Plan, gathered: list[dict], accuracy: dict[str, float]) -> Trace:
    by_worker = [[EpochRecord(**record) for record in entry["records"]] for entry in gathered]
    cache = plan.decision.cache
    warm_up = min(_WARM_UP_EPOCHS, len(by_worker[0]) - 1)
    spans = []
    for number in range(len(by_worker[0])):
        start_s = min(records[number].start_s for records in by_worker)
        for worker, records in enumerate(by_worker):
            for key, category, begin, end in records[number].spans:
                spans.append(
                    Span(
                        task=key,
                        worker=worker,
                        epoch=number,
                        category=category,
                        start_s=max(begin - start_s, 0.0),
                        end_s=max(end - start_s, 0.0),
                    )
                )
    epoch_s = [
        max(r[number].end_s for r in by_worker) - min(r[number].start_s for r in by_worker)
        for number in range(warm_up, len(by_worker[0]))
    ]
    return Trace(
        origin="measured",
        plan_fingerprint=plan.fingerprint(),
        num_workers=plan.num_workers,
        spans=tuple(spans),
        epoch_s=tuple(epoch_s),
        peak_bytes=tuple(entry["peak_bytes"] for entry in gathered),
        sent_bytes=_sent_bytes(by_worker, cache, refresh=True),
        reuse_sent_bytes=_sent_bytes(by_worker, cache, refresh=False),
        refresh_interval=cache.refresh_interval,
        losses=tuple(record.loss for record in by_worker[0]),
        accuracy=accuracy,
        setup_s=max(entry["setup_s"] for entry in gathered),
        adjustments=tuple(Adjusted(**each) for entry in gathered for each in entry["adjusted"]),
    )
