"""A lower bound on the seconds of one program, whatever the order and the lanes of its operators."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gnnplan.planner.cluster import Placement
from gnnplan.planner.network import Network
from gnnplan.planner.program.cycle import Cycle, Program
from gnnplan.planner.program.edges import edges
from gnnplan.planner.program.parts import Operator
from gnnplan.planner.readers.cost import COLLECTIVES, CostsByProfile, costs_of, is_exchange
from gnnplan.planner.readers.schedule import schedule_of, waits
from gnnplan.planner.simulator.engine import compile_schedule
from gnnplan.planner.simulator.tables import Ints


@dataclass(frozen=True)
class Bound:
    """Nothing that it is a bound of takes fewer than `seconds`; `set_by` says in words why."""

    seconds: float
    set_by: str


def bound_of(
    cycle: Cycle,
    program_name: str,
    placement: Placement,
    costs: CostsByProfile | None = None,
    *,
    any_transport: bool = False,
) -> Bound:
    """No schedule of the program's operators ends before `seconds`.

    `set_by` is a worker's compute lane, its port, or the network.

    It is the larger of two bounds:

    - Of the busiest lane. A worker computes one operator at a time, so it is not done before its compute seconds have
      passed. It takes part in one collective at a time, so neither before theirs have.
    - Of the busiest lanes around the last sum over workers, the all-reduce of the gradients. Its ancestors have ended
      when it begins, and its descendants begin when it has ended; which these are follows from reads and writes. So on
      every worker there pass, one after another: the ancestors on their busier lane, the sum, the descendants (the
      step) on theirs.

    Why it is admissible: it looks neither at the order nor at the lanes, so it holds for any order that keeps the
    edges and for any lanes. It adds up seconds of one worker alone, so it holds for the mean of epochs on end as well
    as for an epoch alone. What it leaves out can only make an epoch longer: waiting, and what is charged to
    processors. Under a quota it counts processor time, with as few pauses as any phase of the period allows. It counts
    in nanoseconds as the engine does, so that rounding does not lift it above what is simulated.

    Args:
        costs: as `schedule_of` takes them.
        any_transport: an exchange counts only with the time that a worker's own port needs for its rows. So the bound
            also holds where other collectives than these move the same rows.
    """
    program = cycle.programs[program_name]
    if not waits(cycle, program):
        return Bound(0.0, "nothing")
    lanes = _lanes(cycle, program_name, placement, costs)
    if any_transport:
        lanes = _by_ports(lanes, cycle, program, placement)
    found = [lanes.bound([range(len(program))])]
    if stages := stages_of(cycle, program):
        found.append(lanes.bound(stages))
    return max(found, key=lambda bound: bound.seconds)


def cycle_bound(cycle: Cycle, placement: Placement, costs: CostsByProfile | None = None) -> Bound:
    """The mean of the bounds of a cycle's epochs; `set_by` is of the longest program."""
    costs = costs or costs_of(placement)
    found = {name: bound_of(cycle, name, placement, costs) for name in set(cycle.order)}
    longest = max(found.values(), key=lambda bound: bound.seconds)
    return Bound(sum(found[name].seconds for name in cycle.order) / len(cycle.order), longest.set_by)


def stages_of(cycle: Cycle, program: Program) -> tuple[set[int], set[int], set[int]] | None:
    """Operators that end before the last sum over all workers begins, that sum, and those that begin when it has ended.

    None where there is no such sum. What is in none of the three may run beside any of them.
    """
    sums = [number for number, op in enumerate(program) if op.kind in COLLECTIVES and _is_of_all(op)]
    if not sums:
        return None
    before, after = _around(cycle, program, sums[-1])
    return before, {sums[-1]}, after


def _is_of_all(op: Operator) -> bool:
    """Whether a collective that is no exchange is one of all workers."""
    return not is_exchange(op) and not COLLECTIVES[op.kind].by_host


def _around(cycle: Cycle, program: Program, barrier: int) -> tuple[set[int], set[int]]:
    """Ancestors and descendants of an operator. Edges lead to earlier ones, so one pass each way finds them."""
    waits_for = cycle.once(edges, program)
    before, after = set(waits_for[barrier]), {barrier}
    for number in range(barrier - 1, -1, -1):
        if number in before:
            before |= waits_for[number]
    for number in range(barrier + 1, len(program)):
        if waits_for[number] & after:
            after.add(number)
    return before, after - {barrier}


@dataclass(frozen=True)
class _Lanes:
    """Nanoseconds of every operator on every worker, int64 [operators, W]; none on the lane that it does not need.

    Args:
        compute_ns: on the compute lane, in processor time where there is a quota.
        port_ns: in collectives.
        quota_ns, period_ns: int64 [W], processor time in every period (0 and 1 without a quota).
    """

    compute_ns: Ints
    port_ns: Ints
    quota_ns: Ints
    period_ns: Ints

    def bound(self, stages: Iterable[Iterable[int]]) -> Bound:
        """Of operators in stages that follow one another, by the worker that they take longest."""
        compute_ns, port_ns = (np.array(each) for each in zip(*map(self._stage, map(list, stages)), strict=True))
        in_all = np.maximum(compute_ns, port_ns).sum(0)
        worker = int(in_all.argmax())
        return Bound(int(in_all[worker]) / 1e9, _word(worker, compute_ns[0], port_ns[0]))

    def _stage(self, numbers: list[int]) -> tuple[Ints, Ints]:
        work_ns = self.compute_ns[numbers].sum(0)
        return with_least_pauses(work_ns, self.quota_ns, self.period_ns), self.port_ns[numbers].sum(0)


def with_least_pauses(work_ns: Ints, quota_ns: Ints, period_ns: Ints) -> Ints:
    """The least time in which every worker has so much processor time, int64 [W].

    At best one period's share lies at its end and the next one's right behind it, so two pass without a pause.

    Args:
        quota_ns: processor time in every period (0: no quota).
    """
    num_shares = -(-work_ns // np.maximum(quota_ns, 1))
    num_pauses = np.where(quota_ns > 0, np.maximum(num_shares - 2, 0), 0)
    return work_ns + num_pauses * (period_ns - quota_ns)


def _word(worker: int, compute_ns: Ints, port_ns: Ints) -> str:
    if compute_ns[worker] >= port_ns[worker]:
        return f"compute lane of worker {worker}"
    return f"port of worker {worker}" if np.ptp(port_ns) else "network"


def _lanes(cycle: Cycle, program_name: str, placement: Placement, costs: CostsByProfile | None) -> _Lanes:
    program, size = cycle.programs[program_name], cycle.num_workers
    compiled = compile_schedule(schedule_of(cycle, program_name, placement, costs))
    duration_ns = np.zeros((len(program), size), np.int64)
    duration_ns[list(waits(cycle, program))] = compiled.duration_ns.reshape(-1, size)
    is_collective = np.array([[op.kind in COLLECTIVES] for op in program], bool)
    quotas = compiled.tables.quota_ns[:size], compiled.tables.period_ns[:size]
    return _Lanes(np.where(is_collective, 0, duration_ns), np.where(is_collective, duration_ns, 0), *quotas)


def _by_ports(lanes: _Lanes, cycle: Cycle, program: Program, placement: Placement) -> _Lanes:
    """Exchanges by every worker's own port. Where tables contradict each other none takes longer than the whole."""
    network, port_ns = Network(placement), lanes.port_ns.copy()
    for number, op in enumerate(program):
        if is_exchange(op):
            own_s = network.ports_s(COLLECTIVES[op.kind].num_bytes(cycle, op))
            port_ns[number] = np.minimum(port_ns[number], np.floor(own_s * 1e9).astype(np.int64))
    return _Lanes(lanes.compute_ns, port_ns, lanes.quota_ns, lanes.period_ns)
