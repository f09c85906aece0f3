"""Exchanges on a lane of their own, begun as early as their rows are there."""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from dataclasses import replace

from gnnplan.planner.program.cycle import SETUP, Cycle, Program
from gnnplan.planner.program.edges import edges
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.parts import Operator


def overlap_exchanges(cycle: Cycle, *, waits_late: bool = False) -> Cycle:
    """The cycle with what travels beside what is computed.

    Args:
        waits_late: what waits for the exchange begun last comes after what does not, until the next one has begun.
    """
    order = _waiting_late if waits_late else _begun_early
    programs = {
        name: program if name == SETUP else order(cycle, _on_network(program))
        for name, program in cycle.programs.items()
    }
    return replace(cycle, programs=programs)


def _on_network(program: Program) -> Program:
    return tuple(replace(op, lane="network") if _may_be_beside(op) else op for op in program)


def _may_be_beside(op: Operator) -> bool:
    return KINDS[op.kind].collective and not KINDS[op.kind].blocking


def _begun_early(cycle: Cycle, program: Program) -> Program:
    """Every exchange moved up to where the last of what it waits for stands; the order is otherwise as it was."""
    before = edges(cycle, program)
    rank: dict[int, tuple[int, int]] = {}
    for number, op in enumerate(program):
        after = max((rank[other] for other in before[number]), default=(-1, 0))
        rank[number] = (after[0], after[1] + 1) if op.lane == "network" else (number, 0)
    return tuple(program[number] for number in sorted(rank, key=lambda number: (*rank[number], number)))


def _waiting_late(cycle: Cycle, program: Program) -> Program:
    """Every exchange begun as early as it may; of what is ready otherwise, the first that need not wait for the last.

    An exchange has come for all when one operator has waited for it. Once another has begun, who waits for an earlier
    one has its turn again: of chunks that are made one after another, two are on their way and no more live at once.
    """
    before = edges(cycle, program)
    after: dict[int, list[int]] = defaultdict(list)
    for number, others in enumerate(before):
        for other in others:
            after[other].append(number)
    missing = [len(others) for others in before]
    ready = [number for number, count in enumerate(missing) if not count]
    order: list[int] = []
    begun_last = -1
    while ready:
        number = _next(program, ready, before, begun_last)
        ready.remove(number)
        order.append(number)
        if program[number].lane == "network":
            begun_last = number
        elif begun_last in before[number]:
            begun_last = -1
        for other in after[number]:
            missing[other] -= 1
            if not missing[other]:
                insort(ready, other)
    return tuple(program[number] for number in order)


def _next(program: Program, ready: list[int], before: list[set[int]], begun_last: int) -> int:
    """Of operators that may come next, by their places in the program as it was."""
    begins = (number for number in ready if program[number].lane == "network")
    works = (number for number in ready if begun_last not in before[number])
    return next(begins, next(works, ready[0]))
