"""One plan that a search looks at: its choices, its programs, and what the readers say of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from gnnplan.planner.contracts.choice import Choice
from gnnplan.planner.contracts.setting import Setting
from gnnplan.planner.network import Network
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.readers.bound import Bound, cycle_bound
from gnnplan.planner.readers.cost import exchanges_bytes
from gnnplan.planner.readers.memory import MemoryEstimate, estimate_memory
from gnnplan.planner.readers.schedule import schedule_of
from gnnplan.planner.readers.sustained import long_run_epoch_s
from gnnplan.planner.schedule import Schedule
from gnnplan.planner.simulator.steady import play_epochs


@dataclass(frozen=True)
class Candidate:
    """Choices in a setting. What is read of them is read when it is first asked for.

    Args:
        cycle: with arrays.
        epochs_a_pass: epochs in which every row of the graph is sent, where several are a pass over it.
    """

    setting: Setting
    choices: tuple[Choice, ...]
    cycle: Cycle
    epochs_a_pass: int = 1

    def without_arrays(self) -> Candidate:
        """What readers say of it, and its choices, without what was cut for it."""
        other, own = replace(self, cycle=self.cycle.without_arrays()), {each.name for each in fields(self)}
        vars(other).update({name: read for name, read in vars(self).items() if name not in own})
        return other

    def choice(self, name: str) -> Choice | None:
        """What was chosen of a technique (None: it takes no part)."""
        return next((choice for choice in self.choices if choice.technique == name), None)

    @cached_property
    def shares(self) -> dict[str, float]:
        """By program, in what share of the epochs it is played."""
        counts = Counter(self.cycle.order)
        return {name: count / len(self.cycle.order) for name, count in counts.items()}

    @cached_property
    def schedules(self) -> dict[str, Schedule]:
        """By program, its tasks."""
        place, costs = self.setting.placement, self.setting.costs
        return {name: schedule_of(self.cycle, name, place, costs) for name in self.shares}

    @cached_property
    def epoch_s(self) -> float:
        """Simulated seconds of an epoch, mean over the cycle; under a quota those of a long run, with all pauses."""
        return long_run_epoch_s([self.schedules[name] for name in self.cycle.order])

    @property
    def median_epoch_s(self) -> float:
        """The same of the epoch of median length."""
        return sum(self.shares[name] * play_epochs(each).median_epoch_s for name, each in self.schedules.items())

    @cached_property
    def bound(self) -> Bound:
        """No order and no lanes of its operators have shorter epochs."""
        return cycle_bound(self.cycle, self.setting.placement, self.setting.costs)

    @cached_property
    def memory(self) -> tuple[MemoryEstimate, ...]:
        """Of every worker."""
        place = self.setting.placement
        return tuple(estimate_memory(self.cycle, worker, place.profile_of(worker)) for worker in self.cycle.workers)

    @cached_property
    def missing_bytes(self) -> np.ndarray:
        """int64 [W]: bytes that every worker lacks, or its host; negative where it has some left.

        Of a worker's memory the objective's margin does not count. A host has memory for its region, and for what its
        GPUs keep there.
        """
        workers = self.setting.placement.workers
        pairs = list(zip(self.memory, workers, strict=True))
        found = np.array(
            [m.peak_bytes - self.setting.memory_bytes(rank) for rank, m in enumerate(self.memory)], np.int64
        )
        region = np.array([memory.region_bytes - worker.region_bytes for memory, worker in pairs], np.int64)
        for of_host in (region, self._missing_pinned_bytes()):
            found = np.where(of_host > 0, np.maximum(found, of_host), found)
        return found

    def _missing_pinned_bytes(self) -> np.ndarray:
        """int64 [W]: what every worker's host lacks of page-locked memory; none where it says of no limit."""
        workers, pinned = self.setting.placement.workers, Counter[int]()
        for memory, worker in zip(self.memory, workers, strict=True):
            pinned[worker.host_index] += memory.pinned_bytes
        limited = [0 if w.pinned_bytes is None else pinned[w.host_index] - w.pinned_bytes for w in workers]
        return np.array(limited, np.int64)

    @property
    def fits(self) -> bool:
        """Whether every worker has the memory, and every host that of its region."""
        return bool((self.missing_bytes <= 0).all())

    def busy_s(self, *, ports: bool = False) -> np.ndarray:
        """Float64 [W]: seconds of work of every worker in an epoch, waiting for others left out.

        Of collectives the processor's work counts, or with `ports` the time that the worker's own port takes.
        """
        busy = np.zeros(self.cycle.num_workers)
        for name, schedule in self.schedules.items():
            for task in schedule.tasks:
                is_own = task.category != "communicate"
                seconds = task.seconds if is_own else 0.0 if ports else task.processor_s
                busy[task.worker] += self.shares[name] * seconds
            if ports and self.cycle.num_workers > 1:
                network = Network(self.setting.placement)
                for num_bytes in exchanges_bytes(self.cycle, name).values():
                    busy += self.shares[name] * network.ports_s(num_bytes)
        return busy


def by_merit(candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    """Those that fit before those that do not, then the shorter epoch first.

    Who takes few of them has the memory of few read, which costs more than their seconds.
    """
    too_large = []
    for each in sorted(candidates, key=lambda candidate: candidate.epoch_s):
        if each.fits:
            yield each
        else:
            too_large.append(each)
    yield from too_large
