"""What a job takes on a machine, from statistics of its graph: programs with counts, for the readers of all plans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gnnplan.planner.contracts.choice import Choice
from gnnplan.planner.contracts.counts import Counts
from gnnplan.planner.contracts.shares import equal_shares, refined_shares
from gnnplan.planner.job import Job
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.in_use import share_in_use
from gnnplan.planner.readers.memory import MemoryEstimate, estimate_memory
from gnnplan.planner.readers.schedule import schedule_of
from gnnplan.planner.readers.sustained import long_run_epoch_s
from gnnplan.planner.schedule import Schedule
from gnnplan.planner.statistics.contract import Statistics
from gnnplan.planner.statistics.counts import counts_of, with_entries, with_use
from gnnplan.planner.statistics.degrees import degrees_of
from gnnplan.planner.statistics.halo import Halos
from gnnplan.planner.statistics.machine import Machine
from gnnplan.planner.statistics.stand_in import Shape, Structure, Structures
from gnnplan.planner.techniques.registry import technique
from gnnplan.profiles.errors import UserError

HALO_ROWS = "halo rows"  # what a layout offers whose workers differ in them
_REFINEMENTS = 2  # of uneven shares: later ones gain less than statistics know


@dataclass(frozen=True)
class Priced:
    """A program with counts on a machine. What is read of it is read when it is first asked for."""

    machine: Machine
    choices: tuple[Choice, ...]
    counts: Counts
    cycle: Cycle
    has_halos: bool

    @property
    def busiest(self) -> tuple[float, ...]:
        """How many times what all alike workers send the one sends that stands for them."""
        return self.counts.busiest if self.has_halos else (1.0,) * len(self.counts.own)

    @cached_property
    def schedules(self) -> dict[str, Schedule]:
        """By program, its tasks on the workers that stand for others."""
        place, crowd = self.machine.placement, self.machine.crowd(self.counts, self.busiest)
        order = dict.fromkeys(self.cycle.order)
        costs, paces = self.machine.costs, self.machine.paces
        return {name: schedule_of(self.cycle, name, place, costs, crowd, paces) for name in order}

    @cached_property
    def epoch_s(self) -> float:
        """Simulated seconds of an epoch, mean over the cycle."""
        count, total = Counter(self.cycle.order), len(self.cycle.order)
        return sum(count[name] / total * long_run_epoch_s([each]) for name, each in self.schedules.items())

    @cached_property
    def memory(self) -> tuple[MemoryEstimate, ...]:
        """Of every worker that stands for others."""
        place = self.machine.placement
        return tuple(estimate_memory(self.cycle, worker, place.profile_of(worker)) for worker in self.cycle.workers)

    @cached_property
    def headroom(self) -> float:
        """Least share of a worker's memory, or of its host's, that is left; negative where it does not fit."""
        workers = list(zip(self.memory, self.machine.placement.workers, strict=True))
        of_devices = min(1 - each.peak_bytes / worker.memory_bytes for each, worker in workers)
        return min([of_devices, *(1 - kept / max(limit, 1) for kept, limit in self._page_locked)])

    @property
    def missing_bytes(self) -> int:
        """Of the worker, or the host, that lacks most; 0 where none lacks any."""
        workers = zip(self.memory, self.machine.placement.workers, strict=True)
        of_devices = (each.peak_bytes - worker.memory_bytes for each, worker in workers)
        return max(0, *of_devices, *(kept - limit for kept, limit in self._page_locked))

    @property
    def _page_locked(self) -> list[tuple[int, int]]:
        """Bytes that hosts keep, and that they have, of each kind that has a limit."""
        found, limits = [], [worker.pinned_bytes for worker in self.machine.placement.workers]
        for host in self.machine.hosts:
            kept = sum(count * each.pinned_bytes for count, each in zip(host.workers, self.memory, strict=True))
            limit = next((limit for limit, count in zip(limits, host.workers, strict=True) if count), None)
            found += [] if limit is None else [(kept, limit)]
        return found

    @property
    def fits(self) -> bool:
        """Whether every worker has the memory."""
        return self.headroom >= 0

    def busy_s(self, category: str = "") -> np.ndarray:
        """Float64 [R]: seconds of every worker's tasks, of one category or of all that are its own."""
        busy, count = np.zeros(self.cycle.num_workers), Counter(self.cycle.order)
        for name, schedule in self.schedules.items():
            for task in schedule.tasks:
                if task.category == category or (not category and task.category != "communicate"):
                    busy[task.worker] += task.seconds * count[name] / len(self.cycle.order)
        return busy


@dataclass(frozen=True)
class Pricer:
    """Prices jobs on one graph's statistics.

    Args:
        saves_memory: where nothing fits, programs are priced too that need less memory. It takes seconds.
    """

    statistics: Statistics
    structures: Structures
    saves_memory: bool = False

    @cached_property
    def _halos(self) -> Halos:
        return Halos(self.statistics)

    @cached_property
    def _in_use(self) -> float:
        return share_in_use(*degrees_of(self.statistics))

    def candidates(self, job: Job, machine: Machine) -> list[Priced]:
        """Every program worth pricing, with shares by speed."""
        found = self._candidates(job, machine, saving=False)
        if not self.saves_memory or any(each.fits for each in found):
            return found
        return found + self._candidates(job, machine, saving=True)

    def _candidates(self, job: Job, machine: Machine, *, saving: bool) -> list[Priced]:
        shares = self._shares(job, machine)
        found = self._with_shares(job, machine, shares, saving=saving)
        if found and len(set(shares)) > 1 and job.pin.balance not in ("equal", "speed"):
            for _ in range(_REFINEMENTS):
                best = fastest(found)
                shares = _scaled(refined_shares(best.counts.shares, best.busy_s()), machine.alike)
                found += self._with_shares(job, machine, shares, saving=saving)
        return found

    def _with_shares(
        self, job: Job, machine: Machine, shares: Sequence[float], *, saving: bool = False
    ) -> list[Priced]:
        """Of the programs that save memory there may be none."""
        counts = counts_of(self._halos, job.model.kind, shares, machine.alike)
        shape, is_alone = Shape.of(self.statistics), machine.num_workers == 1
        made = self.structures.of(job, shape, machine.placement, is_alone=is_alone, saving=saving)
        priced = [each for structure in made if (each := self.priced(structure, machine, counts))]
        if not priced and not saving:
            raise UserError(f"{job.name}: no layout that its pins leave can be priced from statistics; leave some out")
        return priced

    def priced(self, structure: Structure, machine: Machine, counts: Counts) -> Priced | None:
        """A program with counts (None: its layout cannot be counted)."""
        cycle = structure.layout.counted(structure.cycle, counts)
        if cycle is None:
            return None
        for choice in structure.choices:
            cycle = technique(choice.technique).counted_on(cycle, counts, choice.decision)
        has_halos = HALO_ROWS in structure.layout.offers
        cycle = with_use(with_entries(cycle, self.statistics), self._in_use)
        return Priced(machine, structure.choices, counts, cycle, has_halos)

    def _shares(self, job: Job, machine: Machine) -> tuple[float, ...]:
        """Of one worker each: by the speed at which it would work through the whole graph alone."""
        profiles = [worker.profile for worker in machine.placement.workers]
        if len(set(profiles)) == 1 or job.pin.balance == "equal":
            return equal_shares(machine.num_workers)[: len(profiles)]
        alone_s = {name: self._alone_s(job, machine, profiles.index(name)) for name in set(profiles)}
        return _scaled([1 / alone_s[name] for name in profiles], machine.alike)

    def _alone_s(self, job: Job, machine: Machine, rank: int) -> float:
        only = Machine(machine.placement.of((rank,)), (1,), ())
        return min(each.epoch_s for each in self._with_shares(job, only, (1.0,)))


def fastest(found: Sequence[Priced], margin: float = 0.0) -> Priced:
    """The fastest that leaves a share of the memory free, or else the one that lacks least."""
    fitting = [each for each in found if each.headroom >= margin]
    return min(fitting, key=lambda each: each.epoch_s) if fitting else max(found, key=lambda each: each.headroom)


def _scaled(shares: Sequence[float], alike: Sequence[int]) -> tuple[float, ...]:
    """Shares of one worker each, that all workers add up to 1."""
    whole = float(np.dot(shares, alike))
    return tuple(float(share) / whole for share in shares)
