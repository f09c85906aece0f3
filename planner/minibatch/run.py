"""Trains a job by mini-batches, here or on emulated hosts: starts workers through torchrun, returns their record."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from gnnplan.planner.cluster import Cluster, expand_hosts
from gnnplan.planner.job import Job
from gnnplan.planner.minibatch.record import RUN_FILE, MiniBatchRun
from gnnplan.profiles.agents import HostGroup
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.folder import holding
from gnnplan.profiles.launch import Event, hosts_here, launch
from gnnplan.profiles.profiler import num_usable_cores

WRITTEN = (RUN_FILE, "model.pt", "workers.log")


def run_mini_batches(
    job: Job,
    folder: Path,
    *,
    num_workers: int = 0,
    cluster: Cluster | None = None,
    timeout_s: float = 300.0,
    on_event: Callable[[Event], None] | None = None,
) -> MiniBatchRun:
    """Measures the stages of the job's batches, then plans and trains its epochs.

    Args:
        folder: receives `mini_batch.json` (with the job in it), `model.pt` (PyG state_dict) and `workers.log`.
        num_workers: 0: one a CUDA device, or one on a CPU. Those of a host share one graph in its memory.
        cluster: emulated around this process; every device of it is a worker, on its host.
        timeout_s: longest wait for another worker, and for a stage of a batch; a stage that may wait for another
            worker itself has twice that.
        on_event: called with `{"event": "epoch", "epoch", "epochs", "loss"}` after every epoch.

    Raises:
        UserError: the job has no mini-batches, pins decisions of full-batch plans, asks for more workers than this
            machine has devices or cores, hosts cannot be reached, or a worker finds its graph or settings wrong.
        NoPlanFitsError: batches do not fit a device.
        RunFailedError: a worker failed; the message names it and the cause.
    """
    if job.mini_batch is None:
        raise UserError(f"{job.name}: the job has no [mini_batch] section; give it fan_outs and batch_size")
    pinned = sorted(job.pin.model_dump(exclude_defaults=True))
    if pinned:
        raise UserError(f"{job.name}: pin.{pinned[0]} is of full-batch plans, mini-batches take no pins; remove it")
    hosts = _hosts_of(cluster) if cluster else [_this_machine(num_workers)]
    # Not in the folder: a job file there is the user's own, and may be the very one that is run.
    with holding(folder), TemporaryDirectory(prefix="gnnplan-job-") as own:
        (folder / RUN_FILE).unlink(missing_ok=True)
        handed = job.with_paths_from(Path.cwd()).save(Path(own) / "job.json")
        arguments = [str(handed), str(folder), f"--timeout-s={timeout_s}"]
        launch("gnnplan.runtime.mini_batch", arguments, hosts=hosts, folder=folder, on_event=on_event)
        return MiniBatchRun.load(folder / RUN_FILE)


def _this_machine(num_workers: int) -> HostGroup:
    has_cuda = torch.cuda.is_available()
    available = torch.cuda.device_count() if has_cuda else num_usable_cores()
    num_workers = num_workers or (available if has_cuda else 1)
    if num_workers > available:
        kind = "CUDA devices" if has_cuda else "cores"
        raise UserError(f"{num_workers} workers asked for, this machine has {available} {kind}")
    return HostGroup(num_workers, threads=max(1, num_usable_cores() // num_workers))


def _hosts_of(cluster: Cluster) -> list[HostGroup]:
    """Workers share their host's cores; one that has less than a core each still has a thread."""
    if torch.cuda.is_available():  # each host's first worker would take the first device
        raise UserError("emulated hosts have CPU workers: hide this machine's CUDA devices (CUDA_VISIBLE_DEVICES=)")
    workers = {name: sum(device.count for device in host.devices) for name, host in expand_hosts(cluster)}
    cores = {name: min(host.cpu_cores or math.inf, num_usable_cores()) for name, host in expand_hosts(cluster)}
    return hosts_here(workers, {name: max(1, int(cores[name] / workers[name])) for name in workers})


def check_apart(job_path: Path, folder: Path) -> None:
    """`UserError` where a run in the folder would write over the file that its job was read from."""
    for name in WRITTEN:
        if (folder / name).resolve() == job_path.resolve():
            raise UserError(f"{job_path}: the run writes its own {name} there; name another folder with -o")
