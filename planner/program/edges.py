"""Which operators must have ended before another begins."""

from __future__ import annotations

from collections import defaultdict

from gnnplan.planner.program.aliases import owners
from gnnplan.planner.program.cycle import Cycle, Program
from gnnplan.planner.program.kinds import KINDS
from gnnplan.planner.program.parts import Operator


def edges(cycle: Cycle, program: Program) -> list[set[int]]:
    """For every operator the numbers of those that it waits for.

    An operator waits for who wrote what it reads; one that writes into a storage that was there before waits for all
    that read or wrote it; and collectives wait for each other, for all workers must come to them in one order.
    """
    owner = cycle.once(owners, program)
    writer: dict[str, int] = {}
    touched: dict[str, set[int]] = defaultdict(set)  # storage -> who read or wrote it
    found, last_collective = [], -1
    for number, op in enumerate(program):
        before = {writer[name] for name in op.reads if name in writer}
        for name in _overwritten(cycle, op):
            before |= touched[owner.get(name, name)]
        if KINDS[op.kind].collective:
            before |= {last_collective} - {-1}
            last_collective = number
        for name in op.writes:
            writer[name] = number
        for name in _overwritten(cycle, op):  # who comes later waits for this one, and so for all before it
            touched[owner.get(name, name)] = set()
        for name in (*op.reads, *op.writes):
            touched[owner.get(name, name)].add(number)
        found.append(before - {number})
    return found


def awaited(cycle: Cycle, program: Program) -> list[tuple[str, ...]]:
    """For every operator the exchanges that must end before it starts, and that no earlier operator has waited for.

    It reads what they bring, or writes where they still send from. They are named by what they write.
    """
    if in_one_lane(program):
        return [()] * len(program)
    before, owner, done, found = cycle.once(edges, program), cycle.once(owners, program), set[int](), []
    for number, op in enumerate(program):
        waits = {other for other in before[number] if program[other].lane == "network"} - done
        if KINDS[op.kind].collective:  # they follow each other by themselves, and may be on their way together
            written = {owner.get(name, name) for name in _overwritten(cycle, op)}
            waits = {
                other
                for other in waits
                if set(op.reads) & set(program[other].writes)
                or written & {owner.get(name, name) for name in program[other].reads}
            }
        done |= waits
        found.append(tuple(program[other].writes[0] for other in sorted(waits)))
    return found


def in_one_lane(program: Program) -> bool:
    """Whether all operators run one after the other."""
    return all(op.lane == "compute" for op in program)


def _overwritten(cycle: Cycle, op: Operator) -> list[str]:
    """Values in whose storage an operator writes though something was there."""
    staying = [name for name in op.writes if cycle.values[name].role != "temporary"]
    return [*staying, *([op.reads[op.inplace]] if op.inplace is not None else [])]
