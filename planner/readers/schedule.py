"""One program of a cycle as a schedule: what the simulator plays on a virtual clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gnnplan.planner.beside import paces_beside
from gnnplan.planner.cluster import Placement
from gnnplan.planner.costs import ZERO, total
from gnnplan.planner.crowd import Crowd
from gnnplan.planner.network import Network
from gnnplan.planner.program.aliases import views
from gnnplan.planner.program.cycle import Cycle, Program
from gnnplan.planner.program.edges import edges, in_one_lane
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.parts import Lane, Operator
from gnnplan.planner.readers.cost import COLLECTIVES, COSTS, Collective, CostsByProfile, costs_of, with_overhead_s
from gnnplan.planner.readers.cost_disk import DiskCosts
from gnnplan.planner.readers.cost_staged import StagingCosts
from gnnplan.planner.readers.stream import is_streamed, stream_schedule
from gnnplan.planner.schedule import Quota, Schedule, Task
from gnnplan.profiles.curves import Estimate

# No limit; but what an exchange uses of the processor's time, computing beside it lacks.
WHOLE_TIME = Quota(share=1.0, period_s=1e-5)


def schedule_of(
    cycle: Cycle,
    program_name: str,
    placement: Placement,
    costs: CostsByProfile | None = None,
    crowd: Crowd | None = None,
    paces: Mapping[str, float] | None = None,
) -> Schedule:
    """A program's tasks, operator by operator and worker by worker.

    Worker w computes on resource w, and takes part in collectives on resource W + w. Views are no tasks.

    Args:
        costs: of every profile (None: made here; who reads many programs makes them once).
        crowd: whom the workers stand for (None: each for itself).
        paces: by profile, as `paces_beside` has them (None: of these workers).
    """
    assert len(placement.workers) == cycle.num_workers, (len(placement.workers), cycle.num_workers)
    if is_streamed(cycle.programs[program_name]):
        return stream_schedule(cycle, cycle.programs[program_name])
    costs = costs or costs_of(placement)
    return _Lowering(cycle, cycle.programs[program_name], placement, costs, crowd, paces).run()


def waits(cycle: Cycle, program: Program) -> dict[int, tuple[int, ...]]:
    """For every operator that is a task, numbers of those that must have ended: at most one a lane.

    A lane runs its operators in the program's order, so the last one of a lane stands for all before it. A collective
    on the compute lane is one of that lane's, so whatever comes after it waits: it is blocking. One on a lane of its
    own is waited for by its readers. What waits for a view waits for what the view waits for.
    """
    if in_one_lane(program):  # the task before stands for all others
        tasks = tuple(number for number, op in enumerate(program) if not views(cycle, op))
        return {number: tasks[max(place - 1, 0) : place] for place, number in enumerate(tasks)}
    found: dict[int, tuple[int, ...]] = {}
    last_of_lane: dict[Lane, int] = {}
    stands_for: list[dict[Lane, int]] = []  # by operator: the tasks that its successors wait for
    for number, (op, before) in enumerate(zip(program, cycle.once(edges, program), strict=True)):
        last: dict[Lane, int] = {}
        for other in before:
            for lane, task in stands_for[other].items():
                last[lane] = max(last.get(lane, -1), task)
        if views(cycle, op):
            stands_for.append(last)
            continue
        if op.lane in last_of_lane:
            last[op.lane] = last_of_lane[op.lane]
        found[number] = tuple(sorted(last.values()))
        last_of_lane[op.lane] = number
        stands_for.append({op.lane: number})
    return found


@dataclass
class _Lowering:
    """Lowers one program. The tasks of an operator stand together, by worker, from index `_first[number]` on."""

    cycle: Cycle
    program: Program
    placement: Placement
    costs: CostsByProfile
    crowd: Crowd | None = None
    paces: Mapping[str, float] | None = None
    _first: dict[int, int] = field(default_factory=dict)
    _num_groups: int = 0

    def __post_init__(self) -> None:
        self._network = Network(self.placement)
        self._profiles = [self.placement.profile_of(worker) for worker in self.cycle.workers]
        paces = self.paces or paces_beside(self.placement)
        self._paces = [paces[worker.profile] for worker in self.placement.workers]
        self._is_elsewhere = [
            is_more or self.placement.has_other_cores(worker)
            for worker, is_more in enumerate(self.placement.have_more_beside)
        ]
        memory_bytes = [worker.memory_bytes for worker in self.placement.workers]
        self._beside = DiskCosts(self.cycle, self.program, memory_bytes), StagingCosts(self.cycle)
        self._schedule = Schedule(self.cycle.num_workers, quotas=self._quotas())

    def run(self) -> Schedule:
        for number, before in waits(self.cycle, self.program).items():
            op, first = self.program[number], [self._first[other] for other in before]
            self._first[number] = len(self._schedule.tasks)
            after = [tuple(index + worker for index in first) for worker in self.cycle.workers]
            tasks = self._collective(op, after) if KINDS[op.kind].collective else self._each(op, after)
            for task in tasks:
                self._schedule.add(task)
        return self._schedule

    def _quotas(self) -> dict[int, Quota]:
        found, host_of = {}, self.placement.host_of
        hosts = list(dict.fromkeys(host_of))
        overlaps = any(op.lane == "network" for op in self.program)
        for worker, profile in enumerate(self._profiles):
            if (limit := profile.cpu_quota) and limit.share < self._paces[worker]:
                # Nothing sets the hosts' periods to each other: they are taken to begin evenly apart.
                share = limit.share / self._paces[worker]
                host = hosts.index(host_of[worker])
                found[worker] = Quota(share, limit.period_s, limit.period_s * host / len(hosts), host)
            elif overlaps and profile.device_kind == "cpu":
                found[worker] = WHOLE_TIME
        return found

    def _each(self, op: Operator, after: list[tuple[int, ...]]) -> list[Task]:
        """A task for every worker on its own."""
        return [self._computed(op, worker, after[worker]) for worker in self.cycle.workers]

    def _computed(self, op: Operator, worker: int, after: tuple[int, ...]) -> Task:
        costs = self.costs[self.placement.workers[worker].profile]
        estimate = COSTS[op.kind](self.cycle, op, worker, costs)
        beside = [each for of in self._beside if (each := of(op, worker, costs)).seconds]
        estimate = total([estimate, *beside]) if beside else estimate
        return Task(
            op.key,
            worker,
            "compute",
            with_overhead_s(estimate.seconds, costs.profile),
            worker,
            after,
            spread_s=estimate.spread_s,
            unprofiled=estimate.unprofiled or self._is_elsewhere[worker],
            parts=estimate.parts,
        )

    def _groups(self, op: Operator) -> list[int]:
        """By worker, the rendezvous that it takes part in: one of all workers, or one a host."""
        host_of = op.attributes["host_of"] if COLLECTIVES[op.kind].by_host else (0,) * self.cycle.num_workers
        number = {host: self._num_groups + at for at, host in enumerate(dict.fromkeys(host_of))}
        self._num_groups += len(number)
        return [number[host] for host in host_of]

    def _collective(self, op: Operator, after: list[tuple[int, ...]]) -> list[Task]:
        """A rendezvous, which uses some of the workers' processors' time; whoever is alone there waits for nobody."""
        estimate, processor = self._estimated(op)
        groups = self._groups(op)
        seconds = [estimate if self.crowd or groups.count(group) > 1 else ZERO for group in groups]
        is_guess = estimate.unprofiled or any(processor[worker].unprofiled for worker in self._schedule.quotas)
        return [
            Task(
                op.key,
                worker,
                "communicate",
                seconds[worker].seconds,
                self.cycle.num_workers + worker,
                after[worker],
                groups[worker],
                spread_s=seconds[worker].spread_s,
                unprofiled=is_guess,
                parts=seconds[worker].parts,
                charged=worker,
                # Of the time that all of its threads have.
                processor_s=used.seconds / self._profiles[worker].num_threads / self._paces[worker],
            )
            for worker, used in enumerate(processor)
        ]

    def _estimated(self, op: Operator) -> tuple[Estimate, list[Estimate]]:
        if self.cycle.num_workers == 1 and not self.crowd:
            return ZERO, [ZERO]
        collective = COLLECTIVES[op.kind]
        if self.crowd:
            return self._estimated_of(self.crowd, collective, op), [ZERO] * self.cycle.num_workers
        num_bytes = collective.num_bytes(self.cycle, op)
        return collective.seconds(self._network, num_bytes), collective.processor(self._network, num_bytes)

    def _estimated_of(self, crowd: Crowd, collective: Collective, op: Operator) -> Estimate:
        if collective.moved:
            return crowd.exchange(*collective.moved(self.cycle, op))
        assert collective.of_crowd, op.kind
        return collective.of_crowd(crowd, collective.num_bytes(self.cycle, op))
