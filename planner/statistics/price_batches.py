"""What a job of mini-batches takes on a machine, from statistics: estimated stages, played by the plans' own policy."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from gnnplan.planner.crowd import Crowd
from gnnplan.planner.job import Job
from gnnplan.planner.minibatch.dispatch import Dispatch, dispatch
from gnnplan.planner.minibatch.stages import StageTimes
from gnnplan.planner.readers.memory import estimate_memory
from gnnplan.planner.readers.schedule import schedule_of
from gnnplan.planner.simulator.steady import play_epochs
from gnnplan.planner.statistics.batches import BatchSizes, batch_program, batch_sizes
from gnnplan.planner.statistics.contract import Statistics
from gnnplan.planner.statistics.counts import WITH_LOOPS
from gnnplan.planner.statistics.machine import Machine
from gnnplan.planner.statistics.stand_in import Shape, Structures
from gnnplan.profiles.contract import Contract
from gnnplan.profiles.errors import UserError
from gnnplan.profiles.limits import Rate

_SLOTS = 10  # batches that may wait, as `dispatch` has them
_SECTOR_BYTES = 64  # that a GPU reads over PCIe for one neighbour of a vertex, wherever the next one lies


class HostRates(Contract):
    """What one core of a host does. The defaults fit `benchmarks/results/loader.json`, of a cloud machine's core.

    Args:
        sampled_edges_per_s: neighbours drawn and relabelled.
        gathered_bytes_per_s: of feature rows, from memory into a batch.
    """

    sampled_edges_per_s: Rate = 54e6
    gathered_bytes_per_s: Rate = 7.8e9


@dataclass(frozen=True)
class PricedBatches:
    """An epoch of mini-batches on the worker that takes longest.

    Args:
        times: estimated, of each stage.
        num_batches: of every worker.
    """

    times: StageTimes
    sizes: BatchSizes
    num_batches: int
    found: Dispatch
    peak_bytes: int
    headroom: float
    missing_bytes: int

    @property
    def epoch_s(self) -> float:
        """Simulated."""
        return self.found.epoch_s


def price_batches(
    job: Job,
    machine: Machine,
    statistics: Statistics,
    structures: Structures,
    rates: HostRates,
    cores: float,
    *,
    is_trimmed: bool = False,
) -> PricedBatches:
    """The best plan of a job's mini-batches.

    Args:
        cores: of a host, for each of its workers, that make batches.
        is_trimmed: as `BatchSizes` has it.
    """
    assert job.mini_batch is not None
    if any(profile.device_kind == "cpu" for profile in machine.placement.profiles.values()):
        raise UserError(f"{job.name}: mini-batches of CPU workers have no price; gnnplan plan measures them there")
    num_trained = max(1, round(statistics.num_nodes * statistics.train_fraction))
    batch_size = min(job.mini_batch.batch_size, num_trained)
    sizes = batch_sizes(statistics, batch_size, job.mini_batch.fan_outs, is_trimmed=is_trimmed)
    count = math.ceil(num_trained / sizes.rows[0] / machine.num_workers)
    each = [
        _on(job, machine, rank, statistics, structures, sizes, rates, max(1.0, cores), max(1, count))
        for rank in range(len(machine.placement.workers))
    ]
    headroom, missing = min(one.headroom for one in each), max(one.missing_bytes for one in each)
    return replace(max(each, key=lambda one: one.epoch_s), headroom=headroom, missing_bytes=missing)


def _on(
    job: Job,
    machine: Machine,
    rank: int,
    statistics: Statistics,
    structures: Structures,
    sizes: BatchSizes,
    rates: HostRates,
    cores: float,
    num_batches: int,
) -> PricedBatches:
    place = machine.placement.of((rank,))
    step_s, step_bytes, gradient_bytes = _step(job, replace(machine, placement=place), statistics, structures, sizes)
    if machine.num_workers > 1:
        size, alike = machine.num_workers, machine.alike
        even = (1 / size,) * len(alike)
        crowd = Crowd(alike, even, (1.0,) * len(alike), machine.hosts, machine.placement.device_link)
        step_s += crowd.all_reduce(gradient_bytes).seconds
    costs, batch_bytes = (
        machine.costs[place.workers[0].profile],
        sizes.rows[-1] * statistics.num_features * statistics.feature_item_bytes,
    )
    by_core_s = sizes.edges[-1] / rates.sampled_edges_per_s + batch_bytes / rates.gathered_bytes_per_s
    times = StageTimes(
        cpu_batching_s=by_core_s / cores,
        gpu_batching_s=costs("h2d_pinned", batch_bytes + _SECTOR_BYTES * sizes.edges[-1]).seconds,
        dma_s=costs("h2d_pinned", batch_bytes).seconds,
        model_s=step_s,
    )
    slots, memory = 0, place.workers[0].memory_bytes
    for slots in range(_SLOTS, 0, -1):
        if step_bytes + slots * batch_bytes <= memory:
            break
    found = dispatch(times, num_batches, gpu_slots=slots, num_cpu_threads=math.floor(cores))
    peak = round(step_bytes + slots * batch_bytes)
    return PricedBatches(times, sizes, num_batches, found, peak, 1 - peak / memory, max(0, peak - memory))


def _step(
    job: Job, machine: Machine, statistics: Statistics, structures: Structures, sizes: BatchSizes
) -> tuple[float, int, int]:
    """Seconds and bytes of one worker's training step, and bytes of its gradients, in the fastest order."""
    shape = replace(Shape.of(statistics), has_sparse_features=False)
    pin = job.pin.model_copy(update={"precompute": False, "sparse_features": None})
    full = job.model_copy(update={"mini_batch": None, "pin": pin})
    place, found = machine.placement, []
    for structure in structures.of(full, shape, place, is_alone=True):
        cycle = batch_program(structure.cycle, sizes, with_loops=job.model.kind in WITH_LOOPS)
        seconds = play_epochs(schedule_of(cycle, cycle.order[0], place, machine.costs)).median_epoch_s
        found.append((seconds, estimate_memory(cycle, 0, place.profile_of(0)).peak_bytes, cycle))
    seconds, peak, cycle = min(found, key=lambda each: each[0])
    return seconds, peak, sum(cycle.num_bytes(name, 0) for name in cycle.parameters)
