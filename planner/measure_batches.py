"""Measures a job's mini-batches where they would be trained: workers sample, move and train some, and tell."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import torch

from gnnplan.planner.cluster import Cluster, expand_hosts
from gnnplan.planner.job import Job
from gnnplan.planner.measured_batches import MEASURED_BATCHES_FILE, MeasuredBatches
from gnnplan.profiles.agents import HostGroup
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.folder import scratch
from gnnplan.profiles.launch import Event, hosts_here, launch
from gnnplan.profiles.profiler import num_cores, num_usable_cores


def measure_batches(
    job: Job,
    cluster: Cluster | None = None,
    *,
    timeout_s: float = 300.0,
    on_event: Callable[[Event], None] | None = None,
) -> MeasuredBatches:
    """The stages of a job's batches, on this machine or on the emulated cluster around this process.

    Args:
        cluster: every device of it is a worker, on its host (None: this machine, with a worker on every CUDA device,
            or one on a CPU, unless `pin.num_workers` asks for more).
        timeout_s: longest wait for another worker, and for a stage of a batch; a stage that may wait for another
            worker itself has twice that.

    Raises:
        UserError: more workers are asked for than there are devices or cores, hosts cannot be reached, or a worker
            finds its graph or settings wrong.
        NoPlanFitsError: batches do not fit a device.
        RunFailedError: a worker failed; the message names it and the cause.
    """
    if cluster:
        _check_pin(job, sum(device.count for _, host in expand_hosts(cluster) for device in host.devices))
    hosts = _hosts_of(cluster) if cluster else [_this_machine(job.pin.num_workers or 0)]
    with scratch("gnnplan-job-") as folder:
        handed = job.with_paths_from(Path.cwd()).save(folder / "job.json")
        arguments = [str(handed), str(folder), f"--timeout-s={timeout_s}"]
        launch("gnnplan.runtime.mini_batch", arguments, hosts=hosts, folder=folder, on_event=on_event)
        return MeasuredBatches.load(folder / MEASURED_BATCHES_FILE)


def _check_pin(job: Job, num_devices: int) -> None:
    if job.pin.num_workers not in (None, num_devices):
        raise UserError(
            f"{job.name}: mini-batches are made by all {num_devices} devices of the cluster, and pin.num_workers is "
            f"{job.pin.num_workers}; leave the pin out, or devices of the cluster"
        )


def _this_machine(num_workers: int) -> HostGroup:
    has_cuda = torch.cuda.is_available()
    available = torch.cuda.device_count() if has_cuda else num_cores()
    num_workers = num_workers or (available if has_cuda else 1)
    if num_workers > available:
        kind = "CUDA devices" if has_cuda else "cores"
        raise UserError(f"{num_workers} workers asked for, this machine has {available} {kind}")
    return HostGroup(num_workers, threads=max(1, num_usable_cores() // num_workers))


def _hosts_of(cluster: Cluster) -> list[HostGroup]:
    """Workers share their host's cores; one that has less than a core each still has a thread."""
    workers = {name: sum(device.count for device in host.devices) for name, host in expand_hosts(cluster)}
    if torch.cuda.is_available() and len(workers) > 1:  # each host's first worker would take the first device
        raise UserError("emulated hosts have CPU workers: hide this machine's CUDA devices (CUDA_VISIBLE_DEVICES=)")
    cores = {name: min(host.cpu_cores or math.inf, num_usable_cores()) for name, host in expand_hosts(cluster)}
    return hosts_here(workers, {name: max(1, int(cores[name] / workers[name])) for name in workers})
