"""What an operator costs: a row for every kind, from the tables of a machine profile.

Seconds of an operator are those of its work alone; `with_overhead_s` are those of its task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gnnplan.planner.beside import shares_beside
from gnnplan.planner.cluster import Placement
from gnnplan.planner.costs import ZERO, OperatorCosts, total
from gnnplan.planner.crowd import Crowd
from gnnplan.planner.network import Network
from gnnplan.planner.program.aliases import views
from gnnplan.planner.program.cycle import Cycle
from gnnplan.planner.program.parts import Operator
from gnnplan.profiles.curves import Estimate
from gnnplan.profiles.machine import MachineProfile

Cost = Callable[[Cycle, Operator, int, OperatorCosts], Estimate]
"""Prices an operator on one worker."""

COSTS: dict[str, Cost] = {}
CostsByProfile = Mapping[str, OperatorCosts]


@dataclass(frozen=True)
class Collective:
    """How an operator is priced that all workers take part in.

    Args:
        num_bytes: what travels: int64 [W, W] from p to q of an exchange, else what `seconds` takes.
        seconds: of the whole.
        processor: processor seconds of every worker.
        moved: of an exchange float64 [W], [W]: bytes that every worker sends and receives, whoever the others are.
        of_crowd: of what is no exchange and takes `num_bytes` of every worker, seconds among many workers.
        by_host: the workers of each host meet by themselves; the attribute `host_of` says who has which host.
    """

    num_bytes: Callable[[Cycle, Operator], Any]
    seconds: Callable[[Network, Any], Estimate]
    processor: Callable[[Network, Any], list[Estimate]]
    moved: Callable[[Cycle, Operator], tuple[np.ndarray, np.ndarray]] | None = None
    of_crowd: Callable[[Crowd, float], Estimate] | None = None
    by_host: bool = False

    @property
    def is_exchange(self) -> bool:
        """Whether `num_bytes` is a matrix, whose rows pass the workers' ports."""
        return self.moved is not None


COLLECTIVES: dict[str, Collective] = {}


def costs(*kinds: str) -> Callable[[Cost], Cost]:
    """Registers how some kinds are priced; a kind stands there once."""

    def put(cost: Cost) -> Cost:
        for kind in kinds:
            assert kind not in COSTS, kind
            COSTS[kind] = cost
        return cost

    return put


def register_collective(kind: str, collective: Collective) -> None:
    """Registers how a kind is priced that all workers take part in; a kind stands there once."""
    assert kind not in COLLECTIVES, kind
    COLLECTIVES[kind] = collective


def costs_of(placement: Placement, known: CostsByProfile | None = None) -> dict[str, OperatorCosts]:
    """The tables of every profile of a placement, ready for lookups, as fast as its workers are beside each other.

    Args:
        known: of its profiles, beside others.
    """
    shares = shares_beside(placement)
    made = known or {name: OperatorCosts.of(profile) for name, profile in placement.profiles.items()}
    return {name: made[name].at(share) for name, share in shares.items()}


def with_overhead_s(seconds: float, profile: MachineProfile) -> float:
    """A task's seconds with its host overhead: a CPU runs Python first, a GPU's launches run ahead of it."""
    overhead_s = profile.host_overhead_s
    return seconds + overhead_s if profile.device_kind == "cpu" else max(seconds, overhead_s)


def computing_s(cycle: Cycle, program_name: str, placement: Placement, costs_by_profile: CostsByProfile) -> np.ndarray:
    """float64 [W]: seconds of every worker's own tasks in a program, one after the other."""
    ops = [op for op in cycle.programs[program_name] if op.kind not in COLLECTIVES and not views(cycle, op)]
    found = np.zeros(cycle.num_workers)
    for worker in cycle.workers:
        costs = costs_by_profile[placement.workers[worker].profile]
        seconds = (COSTS[op.kind](cycle, op, worker, costs).seconds for op in ops)
        found[worker] = sum(with_overhead_s(each, costs.profile) for each in seconds)
    return found


def sums_s(
    cycle: Cycle, program_name: str, worker: int, placement: Placement, costs_by_profile: CostsByProfile
) -> dict[str, float]:
    """By key, the seconds of a worker's tasks in a program that sum over edges."""
    costs = costs_by_profile[placement.workers[worker].profile]
    sums = (op for op in cycle.programs[program_name] if "block" in op.attributes)
    return {op.key: with_overhead_s(COSTS[op.kind](cycle, op, worker, costs).seconds, costs.profile) for op in sums}


def exchanges_bytes(cycle: Cycle, program_name: str) -> dict[str, np.ndarray]:
    """By the key of every exchange of a program int64 [W, W]: bytes from worker p to worker q."""
    exchanges = (op for op in cycle.programs[program_name] if is_exchange(op))
    return {op.key: COLLECTIVES[op.kind].num_bytes(cycle, op) for op in exchanges}


def sent_bytes(cycle: Cycle, program_name: str) -> np.ndarray:
    """int64 [W]: bytes that every worker hands to the exchanges of a program."""
    none = np.zeros(cycle.num_workers, np.int64)
    return sum((each.sum(1) for each in exchanges_bytes(cycle, program_name).values()), start=none)


def is_exchange(op: Operator) -> bool:
    """Whether an operator sends rows from worker to worker."""
    return op.kind in COLLECTIVES and COLLECTIVES[op.kind].is_exchange


def num_written(cycle: Cycle, op: Operator, worker: int) -> float:
    """Elements of the first value that an operator writes, in float32: of halves there are half as many."""
    return in_float32(cycle, op.writes[0], worker)


def in_float32(cycle: Cycle, name: str, worker: int) -> float:
    """Elements of a value, or as many float32 numbers as take its bytes: passes over rows take as long."""
    return cycle.num_elements(name, worker) * share_of_float32(cycle, name)


def share_of_float32(cycle: Cycle, name: str) -> float:
    """Bytes of a number over those of a float32; of integers too 1, for they are not computed with."""
    return 0.5 if cycle.values[name].dtype == "bfloat16" else 1.0


def in_proportion(parts: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """int64 [W, W]: every row's total, shared out in proportion to its parts; they add up to it.

    No product is larger than a total, or than a row's sum times itself.

    Args:
        parts: int64 [W, W]; totals: int64 [W].
    """
    of_row, until = np.maximum(parts.sum(1), 1)[:, None], np.cumsum(parts, 1)
    whole, rest = np.divmod(totals[:, None], of_row)
    return np.diff(until * whole + until * rest // of_row, axis=1, prepend=0)


def copied_first(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts) -> Estimate:
    """Kernels that were measured in place write into a copy where they may not."""
    return ZERO if op.inplace is not None else cost.copy(num_written(cycle, op, worker))


def with_base(cycle: Cycle, op: Operator, worker: int, cost: OperatorCosts, work: Estimate) -> Estimate:
    """Work that is added to the operator's `base`, if it has one. Kernels add while they write, which costs nothing."""
    return total([copied_first(cycle, op, worker, cost), work]) if op.has_base else work


def guess(estimate: Estimate) -> Estimate:
    """An estimate from the table of another kernel; nothing to do stays certain."""
    return replace(estimate, unprofiled=True) if estimate.seconds else estimate
