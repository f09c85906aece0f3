"""Measures this machine: every operator on every worker at once, then the collectives among them."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path

import torch
import torch.distributed as dist

from gnnplan.profiles.agents import HostGroup
from gnnplan.profiles.apart import shared_machine
from gnnplan.profiles.cgroups import core_limit
from gnnplan.profiles.disk import disk_rates
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.folder import scratch
from gnnplan.profiles.grids import GRIDS, Grid
from gnnplan.profiles.launch import Event, emit, hosts_here, launch
from gnnplan.profiles.machine import MachineProfile
from gnnplan.profiles.measure import Timing
from gnnplan.profiles.memory import worker_memory_bytes
from gnnplan.profiles.operators import OPERATORS, Operator
from gnnplan.profiles.overheads import resident_bytes, step_overhead_s, task_overhead_s, use_everything_else
from gnnplan.profiles.pace import Paced, PaceMaker, at_mean_pace
from gnnplan.profiles.passes import Probe, in_passes
from gnnplan.profiles.patience import Patience
from gnnplan.profiles.probes import Probes, Workers, any_worker, largest, over_all_workers, workers_of_this_host
from gnnplan.profiles.quota import find_cpu_quota
from gnnplan.profiles.torchrun import local_device


def profile_machine(
    *, num_workers: int = 0, quick: bool = False, on_progress: Callable[[int, int], None] | None = None
) -> MachineProfile:
    """Profiles this machine as `num_workers` workers would share it.

    Args:
        num_workers: workers side by side (0: one per CUDA device, or min(2, cores) on a CPU). A
            CPU worker gets `cores // num_workers` threads, of cores whose time it has.
        quick: the quick grid (under a minute) instead of the full one (minutes).
        on_progress: called with (points done, points in all).

    Raises:
        UserError: more workers asked for than there are devices or cores.
        RunFailedError: a profiling worker failed.
    """
    has_cuda = torch.cuda.is_available()
    available = torch.cuda.device_count() if has_cuda else num_cores()
    num_workers = num_workers or (available if has_cuda else min(2, num_usable_cores()))
    if num_workers > available:
        kind = "CUDA devices" if has_cuda else "cores"
        raise UserError(f"{num_workers} workers asked for, this machine has {available} {kind}")
    host = HostGroup(num_workers, threads=max(1, num_usable_cores() // num_workers))
    grid = "quick" if quick else "cuda" if has_cuda else "full"
    (profile,) = _profile_hosts([host], grid, on_progress)
    return profile


def profile_hosts(
    workers_by_host: Mapping[str, int],
    *,
    quick: bool = False,
    threads: int = 1,
    on_progress: Callable[[int, int], None] | None = None,
) -> dict[str, MachineProfile]:
    """Profiles the hosts of an emulated cluster, each where it runs, all at once, and their collectives.

    Raises:
        UserError: the hosts cannot be reached from here.
        RunFailedError: a profiling worker failed.
    """
    hosts = hosts_here(workers_by_host, threads)
    profiles = _profile_hosts(hosts, "quick_quota" if quick else "quota", on_progress)
    return {
        name: profile.model_copy(update={"name": name}) for name, profile in zip(workers_by_host, profiles, strict=True)
    }


def _profile_hosts(
    hosts: Sequence[HostGroup], grid: str, on_progress: Callable[[int, int], None] | None
) -> list[MachineProfile]:
    def relay(event: Event) -> None:
        if on_progress and event["event"] == "point":
            on_progress(event["done"], event["of"])

    if not torch.cuda.is_available():
        _compile_kernels()
    with scratch("gnnplan-profile-") as folder:
        launch("gnnplan.profiles.worker", [str(folder), "--grid", grid], hosts=hosts, folder=folder, on_event=relay)
        return [MachineProfile.load(profile_path(folder, rank)) for rank in range(len(hosts))]


def profile_path(folder: Path, host_rank: int) -> Path:
    """Where the first worker of a host leaves the host's profile."""
    return folder / f"host_{host_rank}.json"


def num_cores() -> int:
    """Cores this process may run on, however little of their time its control groups give it."""
    return len(os.sched_getaffinity(0))


def num_usable_cores() -> int:
    """Cores that are worth a thread: no more than this process may run on, or has the time of."""
    limit = core_limit()
    return max(1, min(num_cores(), int(limit.num_cores))) if limit else num_cores()


def measure_as_worker(grid_name: str) -> MachineProfile | None:
    """The host's profile, at the first worker of each host; None elsewhere. Every worker must call it."""
    grid = GRIDS[grid_name]
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = local_device()
    if device.type == "cpu":
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    else:
        grid = grid.within(-largest(-worker_memory_bytes(device, 1), device))  # all workers time the same shapes
    names = [name for name, operator in OPERATORS.items() if operator.is_measured_on(device)]
    resident = _resident_bytes(grid, names, device)
    beside = workers_of_this_host()
    overheads = beside.mean([task_overhead_s(device), step_overhead_s(device)], device)
    progress = _Progress(rank)
    local_size, threads = int(os.environ["LOCAL_WORLD_SIZE"]), torch.get_num_threads()
    if dist.is_initialized():
        dist.barrier()
    quota = find_cpu_quota(local_size, threads) if device.type == "cpu" else None
    probes = Probes.of(grid, device, beside, names, quota)
    operator_probes, collective_probes, pair_probes = probes.of_operators(), probes.of_collectives(), probes.of_pairs()
    progress.total = len(operator_probes) + grid.num_collective_passes * len(collective_probes)
    progress.total += probes.num_pair_passes * len(pair_probes)
    patience = Patience(
        lambda share: largest(share, device), progress.step, total=lambda own: over_all_workers(own, device)
    )
    taken = _taken(operator_probes, patience, device)
    operators = probes.operator_tables(_paced(taken, beside, device))
    timings = _timed_in_passes(collective_probes, grid.num_collective_passes, patience, device)
    timings += _timed_in_passes(pair_probes, probes.num_pair_passes, patience, device)
    collectives = probes.collective_tables(timings)
    anchors = probes.anchors([paced.timings[0] for paced in taken])
    shared = shared_machine(grid, device, beside, quota)
    disk = disk_rates() if device.type == "cpu" else None
    if int(os.environ["LOCAL_RANK"]) != 0:
        return None
    # As operators are, overheads are sustained seconds; they are one thread's, which may use what all have.
    share = min(1.0, quota.share * threads) if quota else 1.0
    label = device_name(device)
    return MachineProfile(
        schema_version=1,
        name=f"{platform.node() or 'host'}-{device.type}-{local_size}x{threads}",
        device_kind="cuda" if device.type == "cuda" else "cpu",
        device_name=label,
        num_threads=threads,
        num_workers_beside=local_size,
        memory_bytes=worker_memory_bytes(device, local_size),
        **resident,
        host_overhead_s=overheads[0] / share,
        step_overhead_s=overheads[1] / share,
        cpu_quota=quota,
        operators=operators,
        collectives=collectives,
        session=os.environ.get("TORCHELASTIC_RUN_ID", "") if size > local_size else "",
        software={"python": platform.python_version(), "torch": torch.__version__},
        created=time.strftime("%Y-%m-%d"),
        note=f"grid {grid_name}",
        shared_machine=shared,
        disk=disk,
        others_share=patience.others_share,
        anchors=anchors,
    )


def _timed_in_passes(
    probes: Sequence[Probe], num_passes: int, patience: Patience, device: torch.device
) -> list[tuple[Timing, ...]]:
    """Timings of collectives; every worker must call it."""
    patient = [partial(patience, probe) for probe in probes]
    return in_passes(patient, num_passes, lambda flags: any_worker(flags, device)) if patient else []


def _taken(probes: Sequence[Probe], patience: Patience, device: torch.device) -> list[Paced]:
    """Timings of operators, each with the pace of the processor beside it; a GPU has its own."""
    if device.type == "cuda":
        return [Paced(patience(probe), 0.0) for probe in probes]
    maker = PaceMaker()
    return [patience(partial(maker.beside, probe)) for probe in probes]


def _paced(taken: Sequence[Paced], beside: Workers, device: torch.device) -> list[tuple[Timing, ...]]:
    """Timings of operators as at the mean pace of this host's processors."""
    if device.type == "cuda":
        return [paced.timings for paced in taken]
    paces_s = beside.mean([paced.pace_s for paced in taken], device)
    return at_mean_pace([Paced(paced.timings, pace_s) for paced, pace_s in zip(taken, paces_s, strict=True)])


def _resident_bytes(grid: Grid, names: list[str], device: torch.device) -> dict[str, int]:
    """Resident bytes of a worker, and what comes to it where it needs more; none on a device with memory of its own."""
    if device.type == "cuda":
        return {}

    def call_all(chosen: Callable[[Operator], bool]) -> None:
        for name in names:
            if chosen(OPERATORS[name]):
                OPERATORS[name].make(grid.shapes(name)[0], device)()

    def base() -> None:
        call_all(lambda operator: not (operator.compiled or operator.of_halves))
        use_everything_else(device)

    steps: dict[str, Callable[[], object]] = {
        "process_base_bytes": base,
        "compiled_kernel_bytes": lambda: call_all(lambda operator: operator.compiled and not operator.of_halves),
        "half_kernel_bytes": lambda: call_all(lambda operator: operator.of_halves),
        "optimizer_class_bytes": lambda: torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))]),
        "pyg_bytes": lambda: import_module("torch_geometric.nn"),
    }
    found, before_bytes = {}, 0
    for name, step in steps.items():
        step()
        after_bytes = resident_bytes()
        found[name], before_bytes = max(after_bytes - before_bytes, 0), after_bytes
    return found


def _compile_kernels() -> None:
    """Fills the cache of compiled kernels, so that no worker compiles, which would count as its memory.

    Some have loops of their own for one thread.
    """
    import numba  # a worker imports it where it needs it: that is counted

    from gnnplan.profiles.kernels import sum_loops

    most = numba.get_num_threads()
    for threads in {1, most}:
        numba.set_num_threads(threads)
        for operator in OPERATORS.values():
            if operator.compiled:
                operator.make((1.0,) * len(operator.axes), torch.device("cpu"))()
    sum_loops.compile_all()
    numba.set_num_threads(most)


class _Progress:
    def __init__(self, rank: int) -> None:
        self.rank, self.total, self.done = rank, 0, 0

    def step(self) -> None:
        self.done = min(self.done + 1, self.total)  # points timed once more, where passes differed, are not foreseen
        if self.rank == 0:
            emit({"event": "point", "done": self.done, "of": self.total})


def device_name(device: torch.device) -> str:
    """What the maker calls a device."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else ():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
