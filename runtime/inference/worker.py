"""One worker of an inference: its share of the graph, the weights, and its own rows of what is asked for."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

from gnnplan.planner.inference.forward import INFER, forward_of
from gnnplan.planner.inference.infer import ROWS
from gnnplan.planner.plan import Plan
from gnnplan.planner.program.outside import is_staged, lies_on_disk
from gnnplan.planner.program.project import attach, project
from gnnplan.planner.program_shard import ProgramShard, check_shard
from gnnplan.profiles.contract import replacing
from gnnplan.profiles.launch import emit
from gnnplan.profiles.roll_call import naming_lost_workers
from gnnplan.profiles.torchrun import process_group
from gnnplan.runtime.device import pick_device
from gnnplan.runtime.execution.executor import ProgramExecutor
from gnnplan.runtime.execution.inputs import on_device, place_of, planned_module
from gnnplan.runtime.execution.peers import Workers
from gnnplan.runtime.inference.weights import load_buffers, weights_of
from gnnplan.runtime.recorder import Recorder


def infer_on_worker(plan_path: Path, weights: Path, folder: Path, of: str, timeout_s: float) -> None:
    """Plays the forward half once; writes this worker's own rows, and says how long it took."""
    plan, rank = Plan.load(plan_path), int(os.environ["RANK"])
    device = pick_device(plan)
    with process_group(device, timeout_s), naming_lost_workers():
        executor, num_own = _executor(plan, weights, folder, rank, device, of, timeout_s)
        if plan.num_workers > 1:
            dist.barrier()
        begun_s = time.monotonic()
        (rows,) = executor.run(INFER).values()
        own = rows[:num_own].float().cpu().numpy()
        emit({"event": "inferred", "worker": rank, "seconds": time.monotonic() - begun_s})
        with replacing(folder / ROWS.format(rank)) as temporary, temporary.open("wb") as sink:
            np.save(sink, own.astype(np.float32, copy=False), allow_pickle=False)


def _executor(
    plan: Plan, weights: Path, folder: Path, rank: int, device: torch.device, of: str, timeout_s: float
) -> tuple[ProgramExecutor, int]:
    """The forward half on a device, and how many of the rows that it makes are the worker's own."""
    whole = plan.cycle.cycle()
    outside = lies_on_disk(whole) or is_staged(whole)
    shard = ProgramShard.load(folder / "shards" / f"worker_{rank}.npz", in_place=outside)
    check_shard(whole, shard, rank)
    forward = forward_of(whole, of)
    cycle, recorder = forward.cycle, Recorder(device)
    read = {name for op in cycle.operators() for name in op.reads}
    inputs = {n: on_device(v, place_of(cycle, n, device)) for n, v in shard.inputs.items() if n in read}
    matrices = {name: each.to(device) for name, each in weights_of(weights, whole).items() if name in read}
    projection = attach(project(cycle, rank), shard.arrays)
    peers = Workers(recorder, timeout_s)
    module = planned_module(plan)
    if module is not None:
        load_buffers(module, weights)
    executor = ProgramExecutor(projection, inputs, matrices, recorder, peers, module, folder)
    return executor, cycle.spaces[forward.value.space].num_own[rank]
