"""One worker process: loads its shard, trains, measures, and hands its figures to rank 0."""

from __future__ import annotations

import json
import os
import time
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

from gnnplan.planner.plan import Plan
from gnnplan.planner.program_shard import ProgramShard
from gnnplan.profiles.contract import replacing
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.kernels import pool
from gnnplan.profiles.kernels.heap import return_freed_memory
from gnnplan.profiles.launch import emit
from gnnplan.profiles.load import LoadWatch
from gnnplan.profiles.roll_call import naming_lost_workers
from gnnplan.profiles.steal import StealWatch
from gnnplan.profiles.torchrun import process_group
from gnnplan.runtime.epoch_record import EpochRecord
from gnnplan.runtime.evaluations import Evaluations, evaluated_epochs
from gnnplan.runtime.measured import UNTIMED_EPOCHS, measured_trace
from gnnplan.runtime.partial.training import PartialTrainer
from gnnplan.runtime.program_trainer import ProgramTrainer
from gnnplan.runtime.room import check_room

MAX_TRACED_EPOCHS = 10
_SAY_EVERY_S = 0.25


def run_worker(plan_path: Path, folder: Path, *, timeout_s: float, num_evaluations: int = 0) -> None:
    """Trains this process's share of a plan; torchrun's environment says which.

    Args:
        num_evaluations: how often accuracies are told on the way.

    Reads `folder/shards/worker_{rank}.npz`; rank 0 writes `folder/measured.json` and `folder/model.pt`.
    """
    plan = Plan.load(plan_path)
    rank, device = int(os.environ["RANK"]), _pick_device(plan)
    check_room(plan, rank, device, int(os.environ["LOCAL_WORLD_SIZE"]))
    with process_group(device, timeout_s), naming_lost_workers():
        _train(plan, folder, rank, device, timeout_s, num_evaluations)


def _pick_device(plan: Plan) -> torch.device:
    place = plan.placement.workers[int(os.environ["RANK"])]
    profile = plan.placement.profiles[place.profile]
    if profile.device_kind == "cuda":
        found = torch.cuda.device_count()
        if place.device_index >= found:
            raise UserError(
                f"the plan needs CUDA device {place.device_index} of {place.host}, which has {found}; plan with a "
                f"profile of what is here"
            )
        device = torch.device("cuda", place.device_index)
        torch.cuda.set_device(device)
        return device
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    return torch.device("cpu")


def _train(plan: Plan, folder: Path, rank: int, device: torch.device, timeout_s: float, num_evaluations: int) -> None:
    setup_start_s = time.monotonic()
    trainer = _trainer_of(plan, folder / "shards", rank, device, timeout_s)
    with closing(trainer):
        pool.release()
        return_freed_memory()
        training, epochs = plan.job.training, plan.job.training.epochs
        traced = set(traced_epochs(epochs, plan.refresh_interval, training.traced_epochs))
        if plan.num_workers > 1:
            dist.barrier()
        setup_s = time.monotonic() - setup_start_s
        evaluations = Evaluations(trainer, device, evaluated_epochs(plan, num_evaluations))
        watch, load = StealWatch.begin(), LoadWatch.begin()
        records = _run_epochs(trainer, epochs, traced, rank, evaluations)
        stolen_share, machine_load, peak_bytes = watch.share(), load.end(), evaluations.peak_bytes()
        accuracy = trainer.evaluate()
    gathered = _gather(
        {
            "records": [asdict(r) for r in records],
            "peak_bytes": peak_bytes,
            "setup_s": setup_s,
            "stolen_share": stolen_share,
            "load": asdict(machine_load),
        }
    )
    if rank == 0:
        assert gathered is not None
        measured_trace(plan, gathered, accuracy).save(folder / "measured.json")
        with replacing(folder / "model.pt") as temporary:
            torch.save(trainer.net.cpu().state_dict(), temporary)


def _trainer_of(plan: Plan, folder: Path, rank: int, device: torch.device, timeout_s: float) -> ProgramTrainer:
    shard = ProgramShard.load(folder / f"worker_{rank}.npz")
    if shard.cut_for != plan.fingerprint():
        raise UserError(f"{folder}: the shard of worker {rank} was cut for another plan; cut the shards again")
    kind = ProgramTrainer if plan.partial is None else PartialTrainer
    return kind(plan, shard, rank, device, timeout_s=timeout_s)


def _run_epochs(
    trainer: ProgramTrainer, epochs: int, traced: set[int], rank: int, evaluations: Evaluations
) -> list[EpochRecord]:
    """Trains to the last epoch; a worker that the others went on without goes on with the epoch after theirs."""
    records: list[EpochRecord] = []
    epoch, said_s, said_epoch = 0, 0.0, 0
    while epoch < epochs:
        paused_s = evaluations.spent_s
        record = trainer.train_epoch(epoch, traced=epoch in traced)
        records.append(replace(record, paused_s=paused_s))
        epoch = record.epoch + 1
        evaluations.after(record.epoch)
        working_s = record.end_s - paused_s
        # Each word costs the listener CPU time, which on a small machine is the workers' own.
        if rank == 0 and (working_s - said_s > _SAY_EVERY_S or epoch == epochs):
            event = {"event": "epoch", "epoch": epoch - 1, "epochs": epochs, "loss": record.loss}
            epoch_s = (working_s - (said_s or records[0].start_s)) / (epoch - said_epoch)
            emit(event | {"epoch_s": epoch_s, "accuracy": evaluations.accuracy})
            said_s, said_epoch = working_s, epoch
    return records


def traced_epochs(epochs: int, refresh_interval: int = 1, most: int = MAX_TRACED_EPOCHS) -> list[int]:
    """Up to `most` epochs, evenly spread after the warm-up.

    With a refresh interval also the one that begins each one's interval and the one after, for both kinds. Of a kind
    that is not among them, as in a short run, the last one there is, though it be of the warm-up.
    """
    first = min(UNTIMED_EPOCHS, epochs - 1)
    count = min(most, epochs - first)
    spread = {int(e) for e in np.linspace(first, epochs - 1, count)}
    if refresh_interval > 1:
        begins = {e - e % refresh_interval for e in spread}
        spread |= {e for begin in begins for e in (begin, begin + 1) if first <= e < epochs}
        for refreshes in (True, False):
            of_kind = [e for e in range(epochs) if (e % refresh_interval == 0) == refreshes]
            if spread.isdisjoint(of_kind):
                spread.update(of_kind[-1:])
    return sorted(spread)


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
