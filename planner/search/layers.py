"""Which layer an operator is of, and which of a layer's operators run between those of the one before and the next."""

from __future__ import annotations

from collections import defaultdict
from functools import reduce
from operator import or_
from typing import TypeAlias

from gnnplan.planner.program.cells import BACKWARD
from gnnplan.planner.program.cycle import Cycle, Program
from gnnplan.planner.program.edges import edges
from gnnplan.planner.readers.bound import stages_of

Window: TypeAlias = tuple[str, bool]
"""A layer, and whether it goes back."""


def layers(cycle: Cycle, program: Program) -> dict[str, str]:
    """By operator's key the layer that it is of, or another part of an epoch.

    What moves rows is named after them, and is of the layer that reads them: whether a layer's rows are sent before it
    multiplies them or after is its own affair, and not that of the layer which makes them. Gradients go back likewise.
    """
    found: dict[str, str] = {}
    readers: dict[str, set[str]] = defaultdict(set)
    for op in reversed([op for op in program if BACKWARD not in op.key]):
        of_readers = set[str]().union(*(readers[value] for value in op.writes))
        is_move = op.key.rpartition("/")[0] in cycle.values and len(of_readers) == 1
        found[op.key] = of_readers.pop() if is_move else op.key.partition("/")[0]
        for value in op.reads:
            readers[value].add(found[op.key])
    for op in program:
        if op.key not in found:
            forward = op.key.partition(BACKWARD)[0]
            found[op.key] = found.get(forward, forward.partition("/")[0])
    return found


def windows(cycle: Cycle, program: Program) -> dict[str, Window]:
    """By key of operators before the gradients' sum that run one layer after another: their layer, and whether back.

    Every layer hands on its rows with its last operator that the next one waits for. Between two such ends there runs
    what comes after the one and before the other. What need not, like gradients of weights, is in no window.
    """
    stages = stages_of(cycle, program)
    if stages is None:
        return {}
    layer_of, before, found = cycle.once(layers, program), _ancestors(cycle, program), dict[str, Window]()
    members: dict[Window, list[int]] = defaultdict(list)
    for number in sorted(stages[0]):
        key = program[number].key
        members[layer_of[key], BACKWARD in key].append(number)
    begin, following = 0, [*list(members.values())[1:], list(stages[1])]
    for (window, numbers), after in zip(members.items(), following, strict=True):
        awaited = reduce(or_, (before[number] for number in after))
        inside = [number for number in numbers if before[number] & begin == begin]
        if ends := [number for number in inside if awaited >> number & 1]:
            found |= {program[number].key: window for number in inside if before[ends[-1]] >> number & 1}
            begin = 1 << ends[-1]  # as a bit of what comes before
    return found


def _ancestors(cycle: Cycle, program: Program) -> list[int]:
    """Of every operator itself and all that end before it begins, as bits."""
    found: list[int] = []
    for number, direct in enumerate(cycle.once(edges, program)):
        found.append(reduce(or_, (found[other] for other in direct), 1 << number))
    return found
